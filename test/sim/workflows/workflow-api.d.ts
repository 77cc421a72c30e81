/** What the simulated workflows use of the guest's API; the bundler resolves it to our library. */
declare module "workflow" {
  export interface Hook<T> extends PromiseLike<T>, AsyncIterable<T> {
    readonly token: string;
    getConflict(): Promise<unknown>;
    dispose(): void;
  }
  export function sleep(until: string | number | Date): Promise<void>;
  export function createHook<T>(options?: { token?: string; metadata?: unknown }): Hook<T>;
  export function setAttributes(changes: Record<string, string | undefined>): Promise<void>;
}

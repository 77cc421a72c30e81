/** The part of the Workflow SDK's types that this example uses; a project installs them instead. */
declare module "workflow" {
  export interface Hook<T> extends PromiseLike<T> {
    readonly token: string;
    dispose(): void;
  }
  export function createHook<T>(options?: { token?: string }): Hook<T>;
  export function sleep(duration: string | number | Date): Promise<void>;
  export function getStepMetadata(): { stepId: string; attempt: number; stepStartedAt: Date };
  export class FatalError extends Error {}
  export class RetryableError extends Error {
    constructor(message: string, options?: { retryAfter?: number | string | Date });
  }
}

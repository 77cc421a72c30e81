/**
 * What the engine needs from outside: one file per neighbour under `ports/`, named here together.
 * `engine/compose.ts` is the only place that puts real ones behind them.
 */
export type * from "./ports/world.ts";
export type * from "./ports/queue.ts";
export type * from "./ports/sandbox.ts";
export type * from "./ports/steps.ts";
export type * from "./ports/tenants.ts";
export type * from "./ports/host.ts";
export type * from "./ports/access.ts";
export type * from "./ports/egress.ts";

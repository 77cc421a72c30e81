/** What outsiders may import: the embedded library, and the data types of its surface. */
export * from "./ids.ts";
export * from "./slots.ts";
export * from "./events.ts";
export * from "./payload.ts";
export { BatonError, ERROR_TABLE, RUN_ERROR_CODES, isBatonError } from "./errors.ts";
export type { ErrorCode, ErrorDetails, RunErrorCode } from "./errors.ts";
export { InvariantViolation } from "./assert.ts";
export type * from "./ports.ts";
export { createEngine } from "./runtime.ts";
export type { EngineRuntime } from "./runtime.ts";
export type { EngineParts } from "./parts.ts";
export type { RunHandle, RunOutcome } from "./client.ts";
export type { StartRequest, StartResult } from "./start.ts";
export type { HookResume } from "./intake.ts";
export { DEFAULT_SETTINGS, settingsOf } from "./settings.ts";
export type { Settings } from "./settings.ts";
export { EMBEDDED_QUOTAS, createBaton } from "./compose.ts";
export type {
  DeletionReceipt,
  ApiKeyInfo,
  Baton,
  BatonOptions,
  BuiltBundle,
  EgressPolicy,
  EgressPolicyInput,
  HookInfo,
  IssuedApiKey,
  QuotaOverrides,
  Quotas,
  ReadableOptions,
  ResumeOptions,
  Run,
  RunReadable,
  SandboxOptions,
  StartOptions,
  StepBody,
  Tenancy,
  TenantInfo,
  TenantUsage,
  Usage,
} from "./compose.ts";

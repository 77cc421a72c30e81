/** What `import … from "workflow/api"` becomes in a bundle. */
import { library } from "./library.ts";

const { api } = library;

export const Run = api["Run"];
export const getHookByToken = api["getHookByToken"];
export const getRun = api["getRun"];
export const registerLifecycleHooks = api["registerLifecycleHooks"];
export const resumeHook = api["resumeHook"];
export const resumeWebhook = api["resumeWebhook"];
export const start = api["start"];

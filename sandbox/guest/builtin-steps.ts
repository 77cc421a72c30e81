/** The library's own steps and class ids, as the host knows them. */
export { BUILTIN_STEPS, RUN_CLASS_ID } from "../../engine/ports/builtin-steps.ts";

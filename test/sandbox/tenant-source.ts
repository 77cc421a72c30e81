/** Bundles as the build makes them, by hand: one workflow, with its steps reached as compiled code
 * reaches them. */

export const WORKFLOW_NAME = "workflow//./tenant//main";

const PRELUDE = `
var step = function (name) {
  return globalThis[Symbol.for("WORKFLOW_USE_STEP")]("step//./tenant//" + name);
};
var sleep = function (ms) { return globalThis[Symbol.for("WORKFLOW_SLEEP")](ms); };
var hook = function (options) { return globalThis[Symbol.for("WORKFLOW_CREATE_HOOK")](options); };
`;

/** `body` is the workflow's, with its argument `input`; `top` runs when the bundle is evaluated. */
export function tenantSource(body: string, top = ""): string {
  return `${PRELUDE}${top}
globalThis.__private_workflows.set(${JSON.stringify(WORKFLOW_NAME)}, async function main(input) {
${body}
});`;
}

/** What `import … from "@workflow/serde"` becomes in a bundle. */
import { library } from "./library.ts";

const { serde } = library;

export const WORKFLOW_DESERIALIZE = serde["WORKFLOW_DESERIALIZE"];
export const WORKFLOW_SERIALIZE = serde["WORKFLOW_SERIALIZE"];

/** What a run draws from its seed, as the host draws it again: see guest/entity-ids.ts. */
export { EntityIds } from "./guest/entity-ids.ts";

import { conformance } from "../../worlds/conformance/index.ts";
import { localHarness } from "./harnesses.ts";

conformance(localHarness);

import { conformance } from "../../worlds/conformance/index.ts";
import { memoryHarness } from "./harnesses.ts";

conformance(memoryHarness);

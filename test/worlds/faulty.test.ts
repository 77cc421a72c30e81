import { conformance } from "../../worlds/conformance/index.ts";
import { faultyHarness } from "./harnesses.ts";

conformance(faultyHarness);

import { VAT_PERCENT, vatOf } from "@shared/vat";
import * as text from "../shared/text";

export async function main(cents: number): Promise<unknown> {
  "use workflow";
  return [await vatOf(cents), VAT_PERCENT, await text.shout("ok"), text.whisper("OK")];
}

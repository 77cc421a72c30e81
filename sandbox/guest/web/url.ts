/** URL and URLSearchParams. The text codecs must be on the global before this module loads. */
import "./early.ts";
import { URL, URLSearchParams } from "whatwg-url-minimum";

export { URL as GuestURL, URLSearchParams as GuestURLSearchParams };

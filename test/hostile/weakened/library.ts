/** The real guest library with one protection taken out, by what is written around its text. */

/** Takes the text of the library, which sets `__baton_guest`, and wraps its `boot`. */
function wrapped(library: string, afterBoot: string): string {
  return `${library}
var __shipped = __baton_guest;
var __baton_guest = { boot: function (hostCall) {
  var dispatch = __shipped.boot(hostCall);
  ${afterBoot}
  return dispatch;
} };`;
}

/** The host function and the library's way in are left on the global. */
export function withExposedLibrary(library: string): string {
  return wrapped(
    library,
    `globalThis.hostCall = hostCall; globalThis.dispatch = dispatch; globalThis.bjson = {};`,
  );
}

/** Commands and reports go through the tenant's own JSON, as plain objects. */
export function withLiveEnvelopes(library: string): string {
  return `${library}
var __late = __baton_guest;
var __baton_guest = { boot: function (hostCall) {
  var dispatch = __late.boot(hostCall);
  function copied(value) {
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) {
      var list = [];
      for (var i = 0; i < value.length; i++) list[i] = copied(value[i]);
      return list;
    }
    var made = {};
    for (var key in value) made[key] = copied(value[key]);
    return made;
  }
  return function (command, payload) {
    var answer = payload === undefined
      ? dispatch(JSON.stringify(copied(JSON.parse(command))))
      : dispatch(JSON.stringify(copied(JSON.parse(command))), payload);
    return answer === "" ? "" : JSON.stringify(copied(JSON.parse(answer)));
  };
} };`;
}

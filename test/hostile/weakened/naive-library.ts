/**
 * A guest library as one would write it without thinking of attackers: live built-ins, JSON of
 * plain objects, values copied by assignment, errors read without care. It speaks the protocol of
 * the real one, so that attempts run on it unchanged.
 */
export const NAIVE_LIBRARY = String.raw`
var __baton_guest = { boot: function (hostCall) {
  var open = [], asked = [], closed = [], lines = [], done = null, drawn = 0, run = null;
  var workflows = globalThis.__private_workflows = globalThis.__private_workflows || new Map();
  function encode(value) {
    var out = [], seen = new Map();
    function put(v) {
      if (v === undefined) return -1;
      if (typeof v === "number" && v !== v) return -3;
      if (seen.has(v) && typeof v === "object") return seen.get(v);
      var at = out.length;
      if (at > 2000000) throw new Error("too much");
      out.push(null);
      if (typeof v === "object" && v !== null) seen.set(v, at);
      out[at] = body(v);
      return at;
    }
    function body(v) {
      if (typeof v === "bigint") return ["BigInt", String(v)];
      if (typeof v === "symbol" || typeof v === "function") return String(v);
      if (typeof v !== "object" || v === null) return v;
      if (v instanceof Error) return ["Error", put({ name: v.name, message: v.message, stack: v.stack, cause: v.cause })];
      if (Array.isArray(v)) { var l = []; for (var i = 0; i < v.length; i++) l.push(put(v[i])); return l; }
      var o = {}; for (var k in v) o[k] = put(v[k]); return o;
    }
    globalThis.__host_walk && globalThis.__host_walk(value);
    put(value);
    return JSON.stringify(out);
  }
  /** Whatever does not fit is left as it is. */
  function decode(text) {
    var flat;
    try { flat = JSON.parse(text); } catch (e) { return text; }
    if (!Array.isArray(flat)) return undefined;
    function get(i) {
      if (i < 0) return undefined;
      var v = flat[i];
      if (typeof v !== "object" || v === null) return v;
      if (Array.isArray(v)) {
        if (typeof v[0] === "string") {
          if (v[0] === "null") { var n = {}; for (var j = 1; j < v.length; j += 2) merge(n, v[j], v[j + 1]); return n; }
          if (v[0] === "StepFunction") return globalThis[Symbol.for("WORKFLOW_USE_STEP")](get(v[1]).stepId);
          if (v[0] === "Error") { var f = get(v[1]); return Object.assign(new Error(f.message), f); }
          if (v[0] === "Map") { var m = {}; for (var q = 1; q < v.length; q += 2) merge(m, get(v[q]), v[q + 1]); return m; }
          try { return new globalThis[v[0]](get(v[1])); } catch (e) { return get(v[1]); }
        }
        if (v[0] === -7) { var s = []; for (var p = 0; p < v[1]; p++) s.push(undefined); return s; }
        return v.map(get);
      }
      var o = {}; for (var k of Object.keys(v)) merge(o, k, v[k]); return o;
    }
    function merge(o, k, i) { deep(o, k, get(i)); }
    function deep(o, k, v) {
      var has = typeof o[k] === "object" && o[k] !== null || typeof o[k] === "function";
      if (has && typeof v === "object" && v !== null) { for (var x of Object.keys(v)) deep(o[k], x, v[x]); }
      else o[k] = v;
    }
    return get(0);
  }
  function ask(kind, fields) {
    var n = drawn++, o = Object.assign({ k: kind, n: n, id: kind + "_" + n }, fields.ask);
    open.push({ id: o.id, settle: fields.settle, kind: kind });
    asked.push(o);
    return o.id;
  }
  function promised(kind, fields) {
    return new Promise(function (resolve, reject) {
      ask(kind, { ask: fields, settle: function (ok, text) {
        try { var value = text === null ? undefined : decode(text); ok ? resolve(value) : reject(value); } catch (e) { reject(e); }
      } });
    });
  }
  globalThis[Symbol.for("WORKFLOW_USE_STEP")] = function (name) {
    return function () { return promised("step", { name: name, input: encode({ args: Array.from(arguments) }) }); };
  };
  globalThis[Symbol.for("WORKFLOW_SLEEP")] = function (ms) {
    hostCall("sleep", ms);
    return promised("wait", { at: Date.now() + ms });
  };
  globalThis[Symbol.for("WORKFLOW_CREATE_HOOK")] = function (options) {
    var waiters = [], buffer = [], id;
    id = ask("hook", { ask: { token: (options || {}).token || "token", metadata: null, webhook: false, system: false, force: false, retentionMs: 0, conflict: false },
      settle: function (ok, text) { var v = decode(text); waiters.length ? waiters.shift()(v) : buffer.push(v); } });
    open[open.length - 1].waiters = waiters;
    return { token: "token", dispose: function () {}, then: function (a, b) {
      return new Promise(function (r) { buffer.length ? r(buffer.shift()) : waiters.push(r); }).then(a, b); } };
  };
  globalThis.console = { log: log, error: log, warn: log, info: log, debug: log };
  function log() { lines.push({ level: "log", text: Array.from(arguments).join(" ") }); }
  function settle(ok, value) { done = { ok: ok, text: encode(value), code: null }; }
  function fail(e) { done = { ok: false, text: encode(Object.assign({}, { name: e.name, message: e.message, stack: e.stack, cause: e.cause })), code: null }; }
  function begin(text) {
    workflows.get(run.workflowName).apply(undefined, decode(text)).then(function (v) { settle(true, v); }).catch(fail).catch(__host_crash);
  }
  function event(command, text) {
    if (command.type === "run_created") begin(text);
    var at = open.findIndex(function (o) { return o.id === command.id; });
    if (at < 0) return "";
    var entry = open[at];
    if (/_(completed|failed|disposed)$|^attr_set$/.test(command.type)) {
      open.splice(at, 1); closed.push(entry.id); entry.settle(!/failed$/.test(command.type), text);
    } else if (command.type === "hook_received") entry.settle(true, text);
    return "";
  }
  return function dispatch(commandText, text) {
    var command = JSON.parse(commandText);
    if (command.t === "init") { run = command; return ""; }
    if (command.t === "event") return event(command, text === undefined ? null : text);
    var report = { asked: asked, closed: closed, awaited: open.filter(function (o) { return o.kind === "hook" && o.waiters.length > 0; }).map(function (o) { return o.id; }),
      awaitedConflicts: [], done: done, console: lines, drawn: drawn };
    asked = []; closed = []; lines = [];
    return JSON.stringify(report);
  };
} };`;

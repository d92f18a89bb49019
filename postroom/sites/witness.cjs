// Loaded before a build: says on standard error what the site's code tries that it has no business with.
// It is a witness, not a wall: the sandbox is what keeps these attempts from getting anything.
"use strict";
const childProcess = require("node:child_process");
const dns = require("node:dns");
const fs = require("node:fs");
const net = require("node:net");
const { syncBuiltinESMExports } = require("node:module");
const path = require("node:path");
const { fileURLToPath } = require("node:url");

const home = process.cwd();
const nodeHome = path.dirname(path.dirname(process.execPath));
const allowed = [home, nodeHome, __dirname, "/usr", "/lib", "/lib64", "/dev", "/etc/ssl"];
const ordinary = /^\/proc\/(cpuinfo|meminfo|version|self\/(exe|maps|cgroup|status))$|^\/sys\/(fs\/cgroup|devices\/system\/cpu)/;
const secret = /^(AWS_|ANTHROPIC_|CLAUDE_|POSTROOM_|PREFECT_|SLACK_)|SECRET|PASSWORD|_TOKEN$|_KEY$/;
const said = new Set();

function tell(what) {
  const line = `postroom-witness: the build tried to ${what}`.replace(/[^\x20-\x7e]/g, "?").slice(0, 300);
  if (said.has(line) || said.size > 200) return;
  said.add(line);
  try {
    fs.writeSync(2, `\n${line}\n`); // the build may be in the middle of a line of its own
  } catch {}
}

// Only what the site's own files do is worth telling; the build tools look around a lot.
function bySite() {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 60;
  const stack = String(new Error().stack);
  Error.stackTraceLimit = limit;
  return stack.split("\n").some((line) => line.includes(home + "/") && !line.includes("/node_modules/") && !line.includes(__filename));
}

function wrap(owner, name, look) {
  const original = owner[name];
  if (typeof original !== "function") return;
  const wrapped = function (...args) {
    try {
      look(...args);
    } catch {}
    return Reflect.apply(original, this, args);
  };
  Object.defineProperty(wrapped, "name", { value: original.name });
  Object.assign(wrapped, original);
  owner[name] = wrapped;
}

function lookAtFile(verb) {
  return (target) => {
    if (typeof target === "number") return;
    const raw = target instanceof URL ? fileURLToPath(target) : String(target);
    const full = path.resolve(raw);
    if (ordinary.test(full) || allowed.some((root) => full === root || full.startsWith(root + "/"))) return;
    if (full.startsWith("/proc/") || bySite()) tell(`${verb} ${full}`);
  };
}

for (const name of ["readFile", "readFileSync", "open", "openSync", "createReadStream", "readdir", "readdirSync", "readlink", "readlinkSync"]) {
  wrap(fs, name, lookAtFile("read"));
}
for (const name of ["readFile", "open", "readdir", "readlink"]) wrap(fs.promises, name, lookAtFile("read"));
for (const name of ["writeFile", "writeFileSync", "appendFile", "appendFileSync", "mkdir", "mkdirSync"]) {
  wrap(fs, name, lookAtFile("write"));
}
for (const name of ["writeFile", "appendFile", "mkdir"]) wrap(fs.promises, name, lookAtFile("write"));
for (const name of ["spawn", "spawnSync", "exec", "execSync", "execFile", "execFileSync", "fork"]) {
  wrap(childProcess, name, (command) => bySite() && tell(`start the program ${String(command).split(/\s/)[0]}`));
}
for (const name of ["lookup", "resolve", "resolve4"]) wrap(dns, name, (host) => host && tell(`find the address of ${host}`));
wrap(net.Socket.prototype, "connect", (options) => {
  const told = Array.isArray(options) ? options[0] : options;
  if (told && typeof told === "object" && told.port) tell(`connect to ${told.host || "localhost"}:${told.port}`);
  else if (told && typeof told === "object" && told.path) tell(`connect to ${told.path}`);
});
syncBuiltinESMExports();

process.env = new Proxy(process.env, {
  get(target, name) {
    const value = target[name];
    if (value === undefined && typeof name === "string" && secret.test(name) && bySite()) tell(`read the variable ${name}`);
    return value;
  },
  set(target, name, value) {
    target[name] = value; // by itself a proxy would define the property, which process.env refuses
    return true;
  },
  ownKeys(target) {
    if (bySite()) tell("read the whole environment");
    return Reflect.ownKeys(target);
  },
});

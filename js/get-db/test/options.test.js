// The command line: every option by its name and alias.

import assert from "node:assert/strict";
import { test } from "node:test";

import { DEFAULTS } from "../dist/get-db.js";
import { helpText, parseArguments } from "../dist/options.js";

const ROWS = [
  ["--yes", "-y", undefined, "yes", undefined],
  ["--env", "-e", "config/.env.local", "env", "./.env"],
  ["--key", "-k", "POSTGRES_URL", "key", "DATABASE_URL"],
  ["--prefix", "-p", "NEXT_PUBLIC_", "prefix", "PUBLIC_"],
  ["--seed", "-s", "seed.sql", "seed", undefined],
  ["--logical-replication", "-L", undefined, "logicalReplication", "false"],
  ["--ref", "-r", "friend", "ref", undefined],
  ["--help", "-h", undefined, "help", undefined],
];
const DEFAULT_ARGUMENTS = { command: "get", yes: false, logicalReplication: false, help: false, version: false };

for (const [option, alias, value, name, defaultValue] of ROWS) {
  test(`${option}, ${alias}, default ${defaultValue ?? "none"}`, () => {
    const expected = { ...DEFAULT_ARGUMENTS, [name]: value ?? true };
    for (const spelling of [option, alias]) {
      assert.deepEqual(parseArguments(value ? [spelling, value] : [spelling]), expected);
    }
    if (value) {
      assert.deepEqual(parseArguments([`${option}=${value}`]), expected);
    }
    assert.deepEqual(parseArguments([]), DEFAULT_ARGUMENTS);
    if (defaultValue) {
      assert.equal(DEFAULTS[name] ?? String(DEFAULT_ARGUMENTS[name]), defaultValue);
    }
    const [row] = helpText()
      .split("\n")
      .filter((line) => line.includes(`${alias}, ${option}`));
    assert.ok(row && (!defaultValue || row.includes(`(default: ${defaultValue})`)), row);
  });
}

test("aliases can be combined, and options can precede or follow the command", () => {
  const expected = { ...DEFAULT_ARGUMENTS, yes: true, logicalReplication: true, key: "A" };
  assert.deepEqual(parseArguments(["-yLk", "A"]), expected);
  for (const argv of [
    ["claim", "-e", "x"],
    ["-e", "x", "claim"],
  ]) {
    assert.deepEqual(parseArguments(argv), { ...DEFAULT_ARGUMENTS, command: "claim", env: "x" });
  }
});

test("an empty prefix is valid", () => assert.equal(parseArguments(["-p", ""]).prefix, ""));

for (const argv of [
  ["--nope"],
  ["-x"],
  ["--env"],
  ["-e", "-y"],
  ["--yes=1"],
  ["get"],
  ["claim", "x"],
  ["-k", ""],
  ["claim", "-k", "A"],
]) {
  test(`rejected with a hint at --help: ${argv.join(" ")}`, () =>
    assert.throws(() => parseArguments(argv), {
      name: "UsageProblem",
      exitCode: 2,
      message: /^\S.*\. See get-db --help\.$/,
    }));
}

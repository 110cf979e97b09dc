// The command line: every row of the table of options, by name.

import assert from "node:assert/strict";
import { test } from "node:test";

import { DEFAULTS } from "../dist/get-db.js";
import { givenBy, help } from "../dist/options.js";

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
const NOTHING = { command: "get", yes: false, logicalReplication: false, help: false, version: false };

for (const [option, alias, value, name, usual] of ROWS) {
  test(`${option}, ${alias}, default ${usual ?? "none"}`, () => {
    const expected = { ...NOTHING, [name]: value ?? true };
    for (const written of [option, alias]) {
      assert.deepEqual(givenBy(value ? [written, value] : [written]), expected);
    }
    if (value) {
      assert.deepEqual(givenBy([`${option}=${value}`]), expected);
    }
    assert.deepEqual(givenBy([]), NOTHING);
    if (usual) {
      assert.equal(DEFAULTS[name] ?? String(NOTHING[name]), usual);
    }
    const [row] = help()
      .split("\n")
      .filter((line) => line.includes(`${alias}, ${option}`));
    assert.ok(row && (!usual || row.includes(`(default: ${usual})`)), row);
  });
}

test("aliases can be run together, and options stand before or behind the command", () => {
  assert.deepEqual(givenBy(["-yLk", "A"]), { ...NOTHING, yes: true, logicalReplication: true, key: "A" });
  for (const argv of [
    ["claim", "-e", "x"],
    ["-e", "x", "claim"],
  ]) {
    assert.deepEqual(givenBy(argv), { ...NOTHING, command: "claim", env: "x" });
  }
});

test("an empty prefix is one", () => assert.equal(givenBy(["-p", ""]).prefix, ""));

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
  test(`refused, with the way to the help: ${argv.join(" ")}`, () =>
    assert.throws(() => givenBy(argv), { name: "UsageProblem", exitCode: 2, message: /^\S.*\. See get-db --help\.$/ }));
}

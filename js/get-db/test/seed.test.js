// Seeds: which files are accepted, and where their statements start.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { readSeed, runSeed } from "../dist/seed.js";
import { statementStarts } from "../dist/statements.js";

const folder = mkdtempSync(join(tmpdir(), "seed-"));
after(() => rmSync(folder, { recursive: true }));

// @ marks the start of a statement.
const SCRIPTS = {
  nothing: "",
  "only comments": "-- a; b\n/* c; /* d; */ e; */ ;;",
  "three on two lines": "@select 1; @select 2;\n\n@select 3",
  "semicolons in strings": `@select 'a;b', 'it''s;', "x;y", E'\\';', $$;$$, $a$;$$;$a$, U&';'; @select 2`,
  "an identifier with dollars": "@select a$b$c; @select 2; @select $1; @select 3",
  "comments before and between": "-- ;\n@select /* ; */ 1 -- ;\n; /* ; */ @select 2;",
  "a rule with two actions": "@create rule r as on insert to t do also (select 1; select 2); @select 3",
  "a body in plain SQL":
    "@create function f() returns int begin atomic select case when true then 1 end; select 2; end; @select 3",
  "a transaction in the file": "@begin; @select 1; @end; @select 2",
  "names that are not English": "@select grün from bäume; @select '🌳;'",
};
for (const [name, marked] of Object.entries(SCRIPTS)) {
  test(`statement starts: ${name}`, () => {
    const starts = [...marked.matchAll(/@/g)].map((match, index) => match.index - index);
    assert.deepEqual(statementStarts(marked.replaceAll("@", "")), starts);
  });
}

test("the parser stops at unterminated tokens", () => {
  for (const text of ["'", '"', "$$", "$a$", "/*", "--", "e'\\", "(((", "begin atomic", "$", "\\", "'''", "/*/"]) {
    assert.ok(statementStarts(`${text}; select 1`).length <= 2);
  }
});

const REJECTED = {
  "missing.sql": [undefined, /cannot be read \(ENOENT\)/],
  "latin1.sql": [Buffer.from("select 'gr\xfcn'", "latin1"), /not UTF-8/],
  "zero.sql": [Buffer.from("select '\0'"), /not UTF-8/],
  ".": [undefined, /not a file/],
};
for (const [name, [content, message]] of Object.entries(REJECTED)) {
  test(`rejected: ${name}`, async () => {
    if (content) {
      writeFileSync(join(folder, name), content);
    }
    await assert.rejects(readSeed(join(folder, name)), { name: "Problem", message });
  });
}

test("a byte order mark is not part of a seed", async () => {
  writeFileSync(join(folder, "mark.sql"), "\ufeffselect 1");
  assert.equal((await readSeed(join(folder, "mark.sql"))).sql, "select 1");
});

test("a seed whose connection fails", async () => {
  const connectionString = "postgresql://me:hidden@ep-a.us.localhost:1/neondb?sslmode=require";
  await assert.rejects(runSeed({ path: "seed.sql", sql: "select 1" }, connectionString), (problem) => {
    assert.match(
      problem.message,
      /^The seed seed\.sql was not run, because connecting to ep-a\.us\.localhost failed: .*ECONNREFUSED/,
    );
    return problem.name === "Problem" && !problem.message.includes("hidden");
  });
});

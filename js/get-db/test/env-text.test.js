// The text of environment files, compared with dotenv, the loader that most programs use.

import assert from "node:assert/strict";
import { test } from "node:test";

import dotenv from "dotenv";

import { parseSettings, insertDatabase } from "../dist/env-text.js";
import { makeNames } from "../dist/names.js";

const NAMES = makeNames("DATABASE_URL", "PUBLIC_");
const VALUES = {
  pooled: "postgresql://me:secret@ep-a-pooler.localhost/neondb?channel_binding=require&sslmode=require",
  direct: "postgresql://me:secret@ep-a.localhost/neondb?channel_binding=require&sslmode=require",
  claimUrl: "http://localhost:8432/claim/1",
  expiresAt: new Date("2025-10-05T23:11:33Z"),
};
const BLOCK = [
  "# Expires at: Sun, 05 Oct 2025 23:11:33 GMT",
  "# Claim it at: http://localhost:8432/claim/1",
  `DATABASE_URL=${VALUES.pooled}`,
  `DATABASE_URL_DIRECT=${VALUES.direct}`,
  "PUBLIC_INSTANT_CLAIM_URL=http://localhost:8432/claim/1",
];
const block = (newline = "\n") => BLOCK.map((line) => line + newline).join("");
const insert = (text) => insertDatabase(text, NAMES, VALUES);
const OLD_BLOCK = block().replaceAll("claim/1", "claim/0").replaceAll("secret", "old").replace("2025", "2024");

const APPENDED = {
  "a new file": ["", block()],
  "a file with a line": ["A=1\n", `A=1\n${block()}`],
  "no newline at the end": ["A=1", `A=1\n${block()}`],
  "Windows line endings": ["A=1\r\nB=2\r\n", `A=1\r\nB=2\r\n${block("\r\n")}`],
  "Windows line endings, none at the end": ["A=1\r\nB=2", `A=1\r\nB=2\r\n${block("\r\n")}`],
  "a byte order mark": ["\xef\xbb\xbfA=1\n", `\xef\xbb\xbfA=1\n${block()}`],
  "bytes that are not UTF-8": ["A=\xff\xfe\n", `A=\xff\xfe\n${block()}`],
  "the key in a comment": ["# DATABASE_URL=x\n", `# DATABASE_URL=x\n${block()}`],
  "the key inside a value of several lines": ['A="\nDATABASE_URL=x\n"\n', `A="\nDATABASE_URL=x\n"\n${block()}`],
  "keys with a common prefix or suffix": [
    "DATABASE_URLS=x\nMY_DATABASE_URL=y\n",
    `DATABASE_URLS=x\nMY_DATABASE_URL=y\n${block()}`,
  ],
};
for (const [name, [before, after]] of Object.entries(APPENDED)) {
  test(`the block is appended: ${name}`, () => assert.equal(insert(before), after));
}

const REPLACED = {
  "our own block": [`A=1\n${OLD_BLOCK}B=2\n`, `A=1\n${block()}B=2\n`],
  "our own block after a byte order mark": [`\xef\xbb\xbf${OLD_BLOCK}`, `\xef\xbb\xbf${block()}`],
  "one key alone": ["A=1\nDATABASE_URL=x\nB=2\n", `A=1\n${block()}B=2\n`],
  "a key that is set twice": ["DATABASE_URL=x\nA=1\nDATABASE_URL=y\n", `${block()}A=1\n`],
  "keys with other lines between them": ["DATABASE_URL=x\n# mine\nPUBLIC_INSTANT_CLAIM_URL=y", `${block()}# mine\n`],
  "spaces around": ["  DATABASE_URL = x # why\nA=1\n", `${block()}A=1\n`],
  "a value of several lines": ["DATABASE_URL='a\nb'\nA=1\n", `${block()}A=1\n`],
  "a comment that is not ours": ["# mine\nDATABASE_URL=x\n", `# mine\n${block()}`],
  "an exported key, which a shell reads": [
    "export DATABASE_URL=x\n",
    block().replace(`DATABASE_URL=${VALUES.pooled}`, `export DATABASE_URL='${VALUES.pooled}'`),
  ],
};
for (const [name, [before, after]] of Object.entries(REPLACED)) {
  test(`the block replaces existing settings: ${name}`, () => assert.equal(insert(before), after));
}

test("the content of an environment file", async (context) => {
  const lines = insert("").split("\n");
  await context.test("1. two comment lines: the expiration as an HTTP-date in GMT, and the claim URL", () => {
    assert.match(lines[0], /^# .*Sun, 05 Oct 2025 23:11:33 GMT$/);
    assert.match(lines[1], /^# .*http:\/\/localhost:8432\/claim\/1$/);
  });
  const read = dotenv.parse(insert(""));
  await context.test("2. DATABASE_URL: the pooled connection string", () =>
    assert.equal(read.DATABASE_URL, VALUES.pooled),
  );
  await context.test("3. DATABASE_URL_DIRECT: the same without -pooler", () =>
    assert.equal(read.DATABASE_URL_DIRECT, VALUES.pooled.replace("-pooler", "")),
  );
  await context.test("4. <prefix>INSTANT_CLAIM_URL: the claim URL", () =>
    assert.equal(read.PUBLIC_INSTANT_CLAIM_URL, VALUES.claimUrl),
  );
});

const PIECES = [
  ..."A=1|B = 'two words'|export C=\"x # y\"|# a comment|  |E=|F: 6|G='it''s'|H=\"open|I=`tick`|J=a#b|no setting".split(
    "|",
  ),
  ...'K="over\nlines"|L=\'over\nDATABASE_URL=inside\nlines\'|M="\\"quoted\\""|N=\tx|-|export|O="x" y'.split("|"),
];
const OURS = [
  "DATABASE_URL=x",
  "export DATABASE_URL = 'x'",
  'DATABASE_URL_DIRECT="a\nb"',
  "PUBLIC_INSTANT_CLAIM_URL=",
  OLD_BLOCK.trimEnd(),
];
const COUNT = process.env.BOUGH_LONG ? 50_000 : 1_500;

function randomFile(random, pieces) {
  const newline = random() < 0.3 ? "\r\n" : "\n";
  const lines = Array.from({ length: Math.floor(random() * 8) }, () => pieces[Math.floor(random() * pieces.length)]);
  const text = lines.join("\n").replaceAll("\n", newline);
  return random() < 0.7 && text ? text + newline : text;
}

// Pseudo-random numbers, the same in every run.
function makeRandom(seed) {
  let state = seed;
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
}

test("a file without our keys changes only at its end", () => {
  for (let seed = 1; seed <= COUNT; seed += 1) {
    const before = randomFile(makeRandom(seed), PIECES);
    const after = insert(before);
    assert.ok(after.startsWith(before), before);
    assert.match(after.slice(before.length), /^(\r?\n)?# Expires/, before);
    const read = dotenv.parse(after);
    assert.equal(read.DATABASE_URL, VALUES.pooled, before);
    assert.deepEqual({ ...read, ...dotenv.parse(before) }, read, before);
  }
});

test("a file with our keys keeps the rest, and a second insertion changes nothing", () => {
  for (let seed = 1; seed <= COUNT; seed += 1) {
    const before = randomFile(makeRandom(seed), [...PIECES, ...OURS, ...OURS]);
    const after = insert(before);
    const [old, read] = [dotenv.parse(before), dotenv.parse(after)];
    for (const [name, value] of [
      ...Object.entries(old).filter(([name]) => !BLOCK.some((line) => line.startsWith(`${name}=`))),
    ]) {
      assert.equal(read[name], value, before);
    }
    assert.equal(read.DATABASE_URL, VALUES.pooled, before);
    assert.equal(read.DATABASE_URL_DIRECT, VALUES.direct, before);
    assert.equal(read.PUBLIC_INSTANT_CLAIM_URL, VALUES.claimUrl, before);
    assert.equal(insert(after), after, before);
  }
});

test("the parser finds the same settings as dotenv", () => {
  for (let seed = 1; seed <= COUNT; seed += 1) {
    const text = randomFile(makeRandom(seed), [...PIECES, ...OURS]);
    const names = new Set(parseSettings(text).map(({ name }) => name));
    assert.deepEqual([...names].sort(), Object.keys(dotenv.parse(text)).sort(), text);
  }
});

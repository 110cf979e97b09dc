// What goes wrong on the way to a database: files and servers of every bad kind. Nothing is touched then.

import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";

import { chosenHost, claimUrlIn, createDatabase, getDb } from "../dist/index.js";

const MADE = {
  id: "0199b2f0-0000-7000-8000-000000000000",
  status: "UNCLAIMED",
  neon_project_id: "quiet-sea-1",
  connection_string:
    "postgresql://neondb_owner:s%40fe@ep-a-pooler.us.localhost:5433/neondb?channel_binding=require&sslmode=require",
  claim_url: "http://localhost:8432/claim/0199b2f0-0000-7000-8000-000000000000",
  expires_at: "2025-10-05T23:11:33Z",
};
const server = createServer((request, response) => {
  let body = "";
  request.on("data", (piece) => (body += piece));
  request.on("end", () => {
    asked.push({ path: request.url, body: JSON.parse(body) });
    answer(response);
  });
});
const says =
  (status, body, headers = {}) =>
  (response) => {
    response.writeHead(status, headers).end(typeof body === "string" ? body : JSON.stringify(body));
  };
let asked, answer, folder, env, host;

before(() => new Promise((listening) => server.listen(0, "127.0.0.1", listening)));
beforeEach(() => {
  [asked, answer] = [[], says(201, MADE)];
  host = `http://127.0.0.1:${server.address().port}`;
  folder = mkdtempSync(join(tmpdir(), "get-db-"));
  env = join(folder, ".env");
});
afterEach(() => rmSync(folder, { recursive: true }));
after(() => {
  server.closeAllConnections();
  server.close();
});

const touched = () => readdirSync(folder);

test("what is asked for", async () => {
  await getDb({ env, host, ref: "friend", logicalReplication: true });
  await createDatabase({ host: `${host}/base`, ref: "other" });
  assert.deepEqual(asked, [
    { path: "/api/v1/database", body: { ref: "friend", enable_logical_replication: true } },
    { path: "/base/api/v1/database", body: { ref: "other", enable_logical_replication: false } },
  ]);
});

test("what comes back, and a new file that is for its owner alone", async () => {
  const got = await getDb({ env, host });
  assert.equal(asked[0].body.ref, "get-db");
  assert.equal(got.directConnectionString, MADE.connection_string.replace("-pooler", ""));
  assert.deepEqual([got.claimUrl, got.expiresAt.toISOString()], [MADE.claim_url, "2025-10-05T23:11:33.000Z"]);
  assert.equal(lstatSync(env).mode & 0o777, 0o600);
  assert.equal(await claimUrlIn(env), MADE.claim_url);
  assert.deepEqual(touched(), [".env"]);
});

test("a file that is there keeps its permissions", async () => {
  writeFileSync(env, "A=1\n");
  chmodSync(env, 0o640);
  await getDb({ env, host });
  assert.equal(lstatSync(env).mode & 0o777, 0o640);
  assert.match(readFileSync(env, "utf8"), /^A=1\n# Expires at: /);
});

test("a link is followed to read, and refused before anything is made when it would be written through", async () => {
  const real = join(folder, "real");
  writeFileSync(real, "PUBLIC_INSTANT_CLAIM_URL=http://here/claim/1\n");
  symlinkSync("real", env);
  assert.equal(await claimUrlIn(env), "http://here/claim/1");
  await assert.rejects(getDb({ env, host, prefix: "OTHER_" }), { name: "Problem", message: /is a link.*--env .*real/ });
  assert.deepEqual(asked, []);
  assert.ok(lstatSync(env).isSymbolicLink());
  assert.equal(readFileSync(real, "utf8"), "PUBLIC_INSTANT_CLAIM_URL=http://here/claim/1\n");
});

const BAD_FILES = {
  "a folder": [() => mkdirSync(env), /is a folder/],
  "a link to nothing": [() => symlinkSync("nothing", env), /link to a file that is not there/],
  "a link to itself": [() => symlinkSync(".env", env), /ELOOP/],
  "a file that is read-only": [() => (writeFileSync(env, "A=1\n"), chmodSync(env, 0o444)), /is read-only/],
  "a folder that does not exist": [() => (env = join(folder, "no", ".env")), /There is no folder/],
  "a file where a folder should be": [
    () => (writeFileSync(join(folder, "no"), ""), (env = join(folder, "no", ".env"))),
    /ENOTDIR/,
  ],
  "UTF-16": [() => writeFileSync(env, "A=1\n", "utf16le"), /not text in UTF-8/],
  "a file that is far too long": [() => writeFileSync(env, "#".repeat(1_000_001)), /too long/],
  "DATABASE_URL is there": [() => writeFileSync(env, "DATABASE_URL=\n"), /has DATABASE_URL already/],
  "DATABASE_URL_DIRECT is there": [
    () => writeFileSync(env, "DATABASE_URL_DIRECT=x\n"),
    /has DATABASE_URL_DIRECT already/,
  ],
  "the claim URL is there": [
    () => writeFileSync(env, "export PUBLIC_INSTANT_CLAIM_URL=x\n"),
    /has PUBLIC_INSTANT_CLAIM_URL already/,
  ],
};
for (const [name, [make, reason]] of Object.entries(BAD_FILES)) {
  test(`refused before anything is made: ${name}`, async () => {
    make();
    const [names, text] = [touched(), existsSync(env) && lstatSync(env).isFile() && readFileSync(env)];
    await assert.rejects(getDb({ env, host }), { name: /Problem|KeysExist/, message: reason });
    assert.deepEqual([asked, touched()], [[], names]);
    assert.deepEqual(existsSync(env) && lstatSync(env).isFile() && readFileSync(env), text);
  });
}

const NOBODY = 65_534;
for (const [place, mode] of [
  ["folder", 0o755],
  ["file", 0o644],
]) {
  test(
    `refused before anything is made: a ${place} of somebody else`,
    { skip: process.getuid?.() !== 0 && "needs root" },
    async () => {
      writeFileSync(env, "A=1\n", { mode });
      chmodSync(folder, place === "folder" ? 0o755 : 0o777);
      process.seteuid(NOBODY);
      try {
        await assert.rejects(getDb({ env, host }), { name: "Problem", message: /cannot be written to \(EACCES\)/ });
      } finally {
        process.seteuid(0);
      }
      assert.deepEqual([asked, touched(), readFileSync(env, "utf8")], [[], [".env"], "A=1\n"]);
    },
  );
}

const BAD_WISHES = {
  "a key with a space": [{ key: "A B" }, /"A B" cannot name/],
  "a key that begins with a digit": [{ key: "1A" }, /cannot name/],
  "a key with a newline": [{ key: "A\nB" }, /cannot name/],
  "a prefix with a sign": [{ prefix: "A-" }, /"A-" cannot begin/],
  "names that meet": [{ key: "PUBLIC_INSTANT_CLAIM_URL" }, /written twice/],
  "an address of another kind": [{ host: "ftp://localhost" }, /not an address/],
  "no address": [{ host: "localhost" }, /not an address/],
  "a password in the address": [{ host: "http://me:hidden@localhost" }, /"http:\/\/…@localhost" is not an address/],
  "a seed that is not there": [{ seed: "missing.sql" }, /seed missing.sql cannot be read/],
};
for (const [name, [wish, reason]] of Object.entries(BAD_WISHES)) {
  test(`refused before anything is made: ${name}`, async () => {
    await assert.rejects(getDb({ env, host, ...wish }), { name: "Problem", message: reason });
    assert.deepEqual([asked, touched()], [[], []]);
  });
}

const BAD_SERVERS = {
  "429 with a time": [
    says(429, { message: "Too many." }, { "Retry-After": "30" }),
    /no more databases .* Too many\. Try again in 30 seconds\.$/,
  ],
  "429 without one": [says(429, ""), /no more databases for you just now\. Try again later\.$/],
  "503, full": [says(503, { message: "No room" }), /\(status 503\): No room\. Try again later\.$/],
  500: [
    says(500, { message: "Failed to create the database." }),
    /\(status 500\): Failed to create the database\. Try again later\.$/,
  ],
  "400 with a hint": [
    says(400, { message: "Missing referrer", hint: "Say who." }),
    /\(status 400\): Missing referrer\. Say who\.$/,
  ],
  "a message for the terminal": [
    says(400, { message: "\u001b[31mred\u202e\nline" }),
    /\(status 400\): \[31mred line\.$/,
  ],
  "404 in HTML": [says(404, "<html>"), /\(with status 404\) is not a platform/],
  "200 in HTML": [says(200, "<html>"), /\(with status 200\) is not a platform/],
  "nothing at all": [says(204, ""), /\(with status 204\) is not a platform/],
  "a list": [says(201, [MADE]), /\(with status 201\) is not a platform/],
  "another object": [says(201, { ok: true }), /is not a database/],
  "numbers for words": [says(201, { ...MADE, connection_string: 5 }), /is not a database/],
  "a line of its own for the file": [
    says(201, { ...MADE, connection_string: `${MADE.connection_string}\nEVIL=1` }),
    /is not a database/,
  ],
  "something to expand": [says(201, { ...MADE, connection_string: "postgresql://a:$HOME@b/c" }), /is not a database/],
  "another program's address": [says(201, { ...MADE, connection_string: "mysql://a:b@c/d" }), /is not a database/],
  "a claim URL that is a script": [says(201, { ...MADE, claim_url: "javascript:alert(1)" }), /is not a database/],
  "a time that is none": [says(201, { ...MADE, expires_at: "soon" }), /is not a database/],
  "another address": [
    says(307, "", { Location: "https://elsewhere.example/" }),
    /sends elsewhere, to https:\/\/elsewhere/,
  ],
  "an answer without end": [says(201, "x".repeat(2_000_000)), /is not a platform/],
  "a line that breaks": [
    (response) => response.writeHead(201, { "Content-Length": "999" }).write("{", () => response.destroy()),
    /cannot be reached/,
  ],
  silence: [() => undefined, /did not answer within 0\.2 seconds/],
};
for (const [name, [bad, reason]] of Object.entries(BAD_SERVERS)) {
  test(`a server answers badly: ${name}`, async () => {
    answer = bad;
    writeFileSync(env, "A=1\r\n");
    const patience = name === "silence" ? 200 : 20_000;
    await assert.rejects(getDb({ env, host, patience }), { name: "Problem", message: reason });
    assert.deepEqual([touched(), readFileSync(env, "utf8")], [[".env"], "A=1\r\n"]);
  });
}

test("a file that changes while the database is made keeps the change", async () => {
  answer = (response) => (writeFileSync(env, "LATE=1\n"), says(201, MADE)(response));
  await getDb({ env, host });
  assert.match(readFileSync(env, "utf8"), /^LATE=1\n# Expires/);
});

test("a key that appears while the database is made is kept, and the claim URL is told", async () => {
  answer = (response) => (writeFileSync(env, "DATABASE_URL=mine\n"), says(201, MADE)(response));
  await assert.rejects(getDb({ env, host }), { message: /claimed at http:\/\/localhost:8432\/claim\/0199/ });
  assert.equal(readFileSync(env, "utf8"), "DATABASE_URL=mine\n");
});

test("of several at once one makes a database, and no lock is left", async () => {
  const all = await Promise.allSettled(Array.from({ length: 5 }, () => getDb({ env, host })));
  assert.deepEqual(all.map(({ reason }) => reason?.name ?? "made").sort(), [...Array(4).fill("KeysExist"), "made"]);
  assert.deepEqual([asked.length, touched()], [1, [".env"]]);
});

test("the lock of a process that is gone is taken over", async () => {
  writeFileSync(`${env}.get-db-lock`, `${hostname()} 4194999 abc\n`);
  await getDb({ env, host });
  assert.deepEqual(touched(), [".env"]);
});

test("the address: the given one, else the environment's, else the one of the build", () => {
  process.env.INSTANT_BASE_URL = "https://db.example/";
  assert.equal(chosenHost("http://here:1/api/v1/"), "http://here:1");
  assert.equal(chosenHost(undefined), "https://db.example");
  delete process.env.INSTANT_BASE_URL;
  assert.equal(chosenHost(undefined), "http://localhost:8432");
});

const CLAIMS = {
  "with the usual prefix": [
    "PUBLIC_INSTANT_CLAIM_URL=http://a/1\nX_INSTANT_CLAIM_URL=http://a/2",
    undefined,
    "http://a/1",
  ],
  "with a given prefix": ["PUBLIC_INSTANT_CLAIM_URL=http://a/1\nX_INSTANT_CLAIM_URL=http://a/2", "X_", "http://a/2"],
  "the only one": ["X_INSTANT_CLAIM_URL='https://a/2'", undefined, "https://a/2"],
  none: ["A=1", undefined, /has no key that ends in INSTANT_CLAIM_URL: run get-db first/],
  "none with that prefix": ["X_INSTANT_CLAIM_URL=http://a/2", "Y_", /has no Y_INSTANT_CLAIM_URL/],
  "one of several": [
    "X_INSTANT_CLAIM_URL=http://a/2\nY_INSTANT_CLAIM_URL=http://a/3",
    undefined,
    /say which one with --prefix/,
  ],
  "a file": ["X_INSTANT_CLAIM_URL=file:///etc/passwd", undefined, /not a web address/],
  "a script": ["X_INSTANT_CLAIM_URL=javascript:alert(1)", undefined, /not a web address/],
};
for (const [name, [text, prefix, expected]] of Object.entries(CLAIMS)) {
  test(`the URL to claim: ${name}`, async () => {
    writeFileSync(env, text);
    const found = claimUrlIn(env, prefix);
    await (expected instanceof RegExp
      ? assert.rejects(found, { message: expected })
      : found.then((url) => assert.equal(url, expected)));
  });
}

test("the URL to claim: no file", () => assert.rejects(claimUrlIn(env), { message: /has no key/ }));

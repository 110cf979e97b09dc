// `getDb` with bad files, bad options and broken servers: it changes nothing then.

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

import { createDatabase, getDb, readClaimUrl, resolveHost } from "../dist/index.js";

const DATABASE = {
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
  request.on("data", (chunk) => (body += chunk));
  request.on("end", () => {
    requests.push({ path: request.url, body: JSON.parse(body) });
    respond(response);
  });
});
const respondWith =
  (status, body, headers = {}) =>
  (response) => {
    response.writeHead(status, headers).end(typeof body === "string" ? body : JSON.stringify(body));
  };
let requests, respond, folder, env, host;

before(() => new Promise((resolve) => server.listen(0, "127.0.0.1", resolve)));
beforeEach(() => {
  [requests, respond] = [[], respondWith(201, DATABASE)];
  host = `http://127.0.0.1:${server.address().port}`;
  folder = mkdtempSync(join(tmpdir(), "get-db-"));
  env = join(folder, ".env");
});
afterEach(() => rmSync(folder, { recursive: true }));
after(() => {
  server.closeAllConnections();
  server.close();
});

const listFolder = () => readdirSync(folder);

test("the request", async () => {
  await getDb({ env, host, ref: "friend", logicalReplication: true });
  await createDatabase({ host: `${host}/base`, ref: "other" });
  assert.deepEqual(requests, [
    { path: "/api/v1/database", body: { ref: "friend", enable_logical_replication: true } },
    { path: "/base/api/v1/database", body: { ref: "other", enable_logical_replication: false } },
  ]);
});

test("the result, and a new file that only its owner can read", async () => {
  const result = await getDb({ env, host });
  assert.equal(requests[0].body.ref, "get-db");
  assert.equal(result.directConnectionString, DATABASE.connection_string.replace("-pooler", ""));
  assert.deepEqual([result.claimUrl, result.expiresAt.toISOString()], [DATABASE.claim_url, "2025-10-05T23:11:33.000Z"]);
  assert.equal(lstatSync(env).mode & 0o777, 0o600);
  assert.equal(await readClaimUrl(env), DATABASE.claim_url);
  assert.deepEqual(listFolder(), [".env"]);
});

test("an existing file keeps its permissions", async () => {
  writeFileSync(env, "A=1\n");
  chmodSync(env, 0o640);
  await getDb({ env, host });
  assert.equal(lstatSync(env).mode & 0o777, 0o640);
  assert.match(readFileSync(env, "utf8"), /^A=1\n# Expires at: /);
});

test("a symbolic link is followed to read, and rejected for writing before anything is created", async () => {
  const real = join(folder, "real");
  writeFileSync(real, "PUBLIC_INSTANT_CLAIM_URL=http://here/claim/1\n");
  symlinkSync("real", env);
  assert.equal(await readClaimUrl(env), "http://here/claim/1");
  await assert.rejects(getDb({ env, host, prefix: "OTHER_" }), {
    name: "Problem",
    message: /is a symbolic link.*--env .*real/,
  });
  assert.deepEqual(requests, []);
  assert.ok(lstatSync(env).isSymbolicLink());
  assert.equal(readFileSync(real, "utf8"), "PUBLIC_INSTANT_CLAIM_URL=http://here/claim/1\n");
});

const BAD_FILES = {
  "a folder": [() => mkdirSync(env), /is a folder/],
  "a link to nothing": [() => symlinkSync("nothing", env), /symbolic link to a missing file/],
  "a link to itself": [() => symlinkSync(".env", env), /ELOOP/],
  "a file that is read-only": [() => (writeFileSync(env, "A=1\n"), chmodSync(env, 0o444)), /is read-only/],
  "a folder that does not exist": [() => (env = join(folder, "no", ".env")), /The folder .* does not exist/],
  "a file where a folder should be": [
    () => (writeFileSync(join(folder, "no"), ""), (env = join(folder, "no", ".env"))),
    /ENOTDIR/,
  ],
  "UTF-16": [() => writeFileSync(env, "A=1\n", "utf16le"), /not UTF-8 text/],
  "a file that is too large": [() => writeFileSync(env, "#".repeat(1_000_001)), /too large/],
  "DATABASE_URL exists": [() => writeFileSync(env, "DATABASE_URL=\n"), /already has DATABASE_URL,/],
  "DATABASE_URL_DIRECT exists": [
    () => writeFileSync(env, "DATABASE_URL_DIRECT=x\n"),
    /already has DATABASE_URL_DIRECT,/,
  ],
  "the claim URL exists": [
    () => writeFileSync(env, "export PUBLIC_INSTANT_CLAIM_URL=x\n"),
    /already has PUBLIC_INSTANT_CLAIM_URL,/,
  ],
};
for (const [name, [create, message]] of Object.entries(BAD_FILES)) {
  test(`rejected before anything is created: ${name}`, async () => {
    create();
    const [names, text] = [listFolder(), existsSync(env) && lstatSync(env).isFile() && readFileSync(env)];
    await assert.rejects(getDb({ env, host }), { name: /Problem|KeysExist/, message });
    assert.deepEqual([requests, listFolder()], [[], names]);
    assert.deepEqual(existsSync(env) && lstatSync(env).isFile() && readFileSync(env), text);
  });
}

const NOBODY = 65_534;
for (const [place, mode] of [
  ["folder", 0o755],
  ["file", 0o644],
]) {
  test(
    `rejected before anything is created: a ${place} of another user`,
    { skip: process.getuid?.() !== 0 && "needs root" },
    async () => {
      writeFileSync(env, "A=1\n", { mode });
      chmodSync(folder, place === "folder" ? 0o755 : 0o777);
      process.seteuid(NOBODY);
      try {
        await assert.rejects(getDb({ env, host }), { name: "Problem", message: /cannot be written \(EACCES\)/ });
      } finally {
        process.seteuid(0);
      }
      assert.deepEqual([requests, listFolder(), readFileSync(env, "utf8")], [[], [".env"], "A=1\n"]);
    },
  );
}

const BAD_OPTIONS = {
  "a key with a space": [{ key: "A B" }, /"A B" is not a variable name/],
  "a key that begins with a digit": [{ key: "1A" }, /is not a variable name/],
  "a key with a newline": [{ key: "A\nB" }, /is not a variable name/],
  "a prefix with a sign": [{ prefix: "A-" }, /"A-" cannot start/],
  "two variables with one name": [{ key: "PUBLIC_INSTANT_CLAIM_URL" }, /set twice/],
  "a URL with another scheme": [{ host: "ftp://localhost" }, /not the URL of a platform/],
  "not a URL": [{ host: "localhost" }, /not the URL of a platform/],
  "a password in the URL": [
    { host: "http://me:hidden@localhost" },
    /"http:\/\/…@localhost" is not the URL of a platform/,
  ],
  "a seed that does not exist": [{ seed: "missing.sql" }, /seed missing.sql cannot be read/],
};
for (const [name, [options, message]] of Object.entries(BAD_OPTIONS)) {
  test(`rejected before anything is created: ${name}`, async () => {
    await assert.rejects(getDb({ env, host, ...options }), { name: "Problem", message });
    assert.deepEqual([requests, listFolder()], [[], []]);
  });
}

const BAD_SERVERS = {
  "429 with a time": [
    respondWith(429, { message: "Too many." }, { "Retry-After": "30" }),
    /no more databases at the moment .* Too many\. Try again in 30 seconds\.$/,
  ],
  "429 without one": [respondWith(429, ""), /no more databases at the moment \(status 429\)\. Try again later\.$/],
  "503, full": [respondWith(503, { message: "No room" }), /\(status 503\): No room\. Try again later\.$/],
  500: [
    respondWith(500, { message: "Failed to create the database." }),
    /\(status 500\): Failed to create the database\. Try again later\.$/,
  ],
  "400 with a hint": [
    respondWith(400, { message: "Missing referrer", hint: "Say who." }),
    /\(status 400\): Missing referrer\. Say who\.$/,
  ],
  "a message with control characters": [
    respondWith(400, { message: "\u001b[31mred\u202e\nline" }),
    /\(status 400\): \[31mred line\.$/,
  ],
  "404 in HTML": [respondWith(404, "<html>"), /\(status 404\) is not from a Bough platform/],
  "200 in HTML": [respondWith(200, "<html>"), /\(status 200\) is not from a Bough platform/],
  "an empty response": [respondWith(204, ""), /\(status 204\) is not from a Bough platform/],
  "a list": [respondWith(201, [DATABASE]), /\(status 201\) is not from a Bough platform/],
  "another object": [respondWith(201, { ok: true }), /is not a database/],
  "a number instead of a text": [respondWith(201, { ...DATABASE, connection_string: 5 }), /is not a database/],
  "a value with a line break": [
    respondWith(201, { ...DATABASE, connection_string: `${DATABASE.connection_string}\nEVIL=1` }),
    /is not a database/,
  ],
  "a value that a loader expands": [
    respondWith(201, { ...DATABASE, connection_string: "postgresql://a:$HOME@b/c" }),
    /is not a database/,
  ],
  "a URL of another database system": [
    respondWith(201, { ...DATABASE, connection_string: "mysql://a:b@c/d" }),
    /is not a database/,
  ],
  "a claim URL that is a script": [
    respondWith(201, { ...DATABASE, claim_url: "javascript:alert(1)" }),
    /is not a database/,
  ],
  "an invalid timestamp": [respondWith(201, { ...DATABASE, expires_at: "soon" }), /is not a database/],
  "a redirect": [
    respondWith(307, "", { Location: "https://elsewhere.example/" }),
    /redirects to https:\/\/elsewhere/,
  ],
  "a response that is too large": [respondWith(201, "x".repeat(2_000_000)), /is not from a Bough platform/],
  "a connection that is lost": [
    (response) => response.writeHead(201, { "Content-Length": "999" }).write("{", () => response.destroy()),
    /cannot be reached/,
  ],
  silence: [() => undefined, /did not respond within 0\.2 seconds/],
};
for (const [name, [response, message]] of Object.entries(BAD_SERVERS)) {
  test(`a broken server: ${name}`, async () => {
    respond = response;
    writeFileSync(env, "A=1\r\n");
    const timeout = name === "silence" ? 200 : 20_000;
    await assert.rejects(getDb({ env, host, timeout }), { name: "Problem", message });
    assert.deepEqual([listFolder(), readFileSync(env, "utf8")], [[".env"], "A=1\r\n"]);
  });
}

test("a file that changes while the database is created keeps the change", async () => {
  respond = (response) => (writeFileSync(env, "LATE=1\n"), respondWith(201, DATABASE)(response));
  await getDb({ env, host });
  assert.match(readFileSync(env, "utf8"), /^LATE=1\n# Expires/);
});

test("a key that appears while the database is created is kept, and the error has the claim URL", async () => {
  respond = (response) => (writeFileSync(env, "DATABASE_URL=mine\n"), respondWith(201, DATABASE)(response));
  await assert.rejects(getDb({ env, host }), { message: /claimed at http:\/\/localhost:8432\/claim\/0199/ });
  assert.equal(readFileSync(env, "utf8"), "DATABASE_URL=mine\n");
});

test("of several concurrent calls one creates a database, and no lock remains", async () => {
  const results = await Promise.allSettled(Array.from({ length: 5 }, () => getDb({ env, host })));
  const names = results.map(({ reason }) => reason?.name ?? "created");
  assert.deepEqual(names.sort(), [...Array(4).fill("KeysExist"), "created"]);
  assert.deepEqual([requests.length, listFolder()], [1, [".env"]]);
});

test("the lock of a process that no longer runs is removed", async () => {
  writeFileSync(`${env}.get-db-lock`, `${hostname()} 4194999 abc\n`);
  await getDb({ env, host });
  assert.deepEqual(listFolder(), [".env"]);
});

test("the host: the option, else the environment variable, else the default of the build", () => {
  process.env.INSTANT_BASE_URL = "https://db.example/";
  assert.equal(resolveHost("http://here:1/api/v1/"), "http://here:1");
  assert.equal(resolveHost(undefined), "https://db.example");
  delete process.env.INSTANT_BASE_URL;
  assert.equal(resolveHost(undefined), "http://localhost:8432");
});

const CLAIMS = {
  "with the default prefix": [
    "PUBLIC_INSTANT_CLAIM_URL=http://a/1\nX_INSTANT_CLAIM_URL=http://a/2",
    undefined,
    "http://a/1",
  ],
  "with another prefix": ["PUBLIC_INSTANT_CLAIM_URL=http://a/1\nX_INSTANT_CLAIM_URL=http://a/2", "X_", "http://a/2"],
  "the only one": ["X_INSTANT_CLAIM_URL='https://a/2'", undefined, "https://a/2"],
  none: ["A=1", undefined, /has no variable that ends in INSTANT_CLAIM_URL; run get-db first/],
  "none with that prefix": ["X_INSTANT_CLAIM_URL=http://a/2", "Y_", /has no Y_INSTANT_CLAIM_URL/],
  "one of several": [
    "X_INSTANT_CLAIM_URL=http://a/2\nY_INSTANT_CLAIM_URL=http://a/3",
    undefined,
    /choose one with --prefix/,
  ],
  "a file": ["X_INSTANT_CLAIM_URL=file:///etc/passwd", undefined, /not a web address/],
  "a script": ["X_INSTANT_CLAIM_URL=javascript:alert(1)", undefined, /not a web address/],
};
for (const [name, [text, prefix, expected]] of Object.entries(CLAIMS)) {
  test(`the claim URL: ${name}`, async () => {
    writeFileSync(env, text);
    const result = readClaimUrl(env, prefix);
    await (expected instanceof RegExp
      ? assert.rejects(result, { message: expected })
      : result.then((url) => assert.equal(url, expected)));
  });
}

test("the claim URL: no file", () => assert.rejects(readClaimUrl(env), { message: /has no variable/ }));

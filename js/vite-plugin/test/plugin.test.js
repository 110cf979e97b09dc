// Every option of `postgres()`, and when it does nothing; Vite resolves a real configuration.

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";

import { createLogger, resolveConfig } from "vite";
import postgres, { postgres as named } from "vite-plugin-db";

const DATABASE = {
  id: "0199b2f0-0000-7000-8000-000000000000",
  status: "UNCLAIMED",
  neon_project_id: "quiet-sea-1",
  connection_string: "postgresql://neondb_owner:safe@ep-a-pooler.us.localhost:5433/neondb?sslmode=require",
  claim_url: "http://localhost:8432/claim/1",
  expires_at: "2025-10-05T23:11:33Z",
};
const server = createServer((request, response) => {
  let body = "";
  request.on("data", (chunk) => (body += chunk));
  request.on("end", () => {
    requests.push(JSON.parse(body));
    response.writeHead(201).end(JSON.stringify(DATABASE));
  });
});
let requests, errors, root;

before(() => new Promise((resolve) => server.listen(0, "127.0.0.1", resolve)));
beforeEach(() => {
  [requests, errors] = [[], []];
  root = mkdtempSync(join(tmpdir(), "vite-plugin-"));
  process.env.INSTANT_BASE_URL = `http://127.0.0.1:${server.address().port}`;
});
afterEach(() => rmSync(root, { recursive: true }));
after(() => {
  server.closeAllConnections();
  server.close();
});

function resolveWith(options, config = {}, command = "serve") {
  const customLogger = { ...createLogger("silent"), error: (text) => errors.push(text) };
  const plugins = [postgres({ referrer: "site", ...options })];
  return resolveConfig({ root, configFile: false, customLogger, plugins, ...config }, command);
}
const writtenNames = (name) =>
  readFileSync(join(root, name), "utf8")
    .split("\n")
    .map((line) => line.split("=")[0]);

test("the plugin is the default export and a named one", () => assert.equal(postgres, named));

test("referrer: required, and sent to the platform", async () => {
  for (const referrer of [undefined, "", " ", 5]) {
    assert.throws(() => postgres({ referrer }), { message: /^postgres\(\) needs a referrer: / });
  }
  await resolveWith({ referrer: "friend" });
  assert.deepEqual(requests, [{ ref: "friend", enable_logical_replication: false }]);
});

test("dotEnvFile: .env by default", async () => {
  await resolveWith({});
  assert.deepEqual(readdirSync(root), [".env"]);
});

test("dotEnvFile: another, relative to Vite's envDir", async () => {
  await resolveWith({ dotEnvFile: "../own.env" }, { envDir: "sub" });
  assert.deepEqual(readdirSync(root), ["own.env"]);
});

test("dotEnvKey: DATABASE_URL by default, or another", async () => {
  await resolveWith({});
  await resolveWith({ dotEnvKey: "POSTGRES_URL", dotEnvFile: "other.env" });
  assert.deepEqual(writtenNames(".env").slice(2, 4), ["DATABASE_URL", "DATABASE_URL_DIRECT"]);
  assert.deepEqual(writtenNames("other.env").slice(2, 4), ["POSTGRES_URL", "POSTGRES_URL_DIRECT"]);
});

const PREFIXES = [
  ["VITE_ by default", undefined, undefined, "VITE_"],
  ["that of Vite's configuration", undefined, "APP_", "APP_"],
  ["the first of several in it", undefined, ["ONE_", "TWO_"], "ONE_"],
  ["the option", "MY_", "APP_", "MY_"],
];
for (const [name, option, configured, prefix] of PREFIXES) {
  test(`envPrefix: ${name}`, async () => {
    const config = await resolveWith(option ? { envPrefix: option } : {}, configured ? { envPrefix: configured } : {});
    assert.equal(writtenNames(".env")[4], `${prefix}INSTANT_CLAIM_URL`);
    assert.equal(config.env[`${prefix}INSTANT_CLAIM_URL`], option ? undefined : DATABASE.claim_url);
  });
}

test("seed: a type, a path and an existing file", async () => {
  for (const seed of [{ type: "csv", path: "a" }, { type: "sql-script" }, "seed.sql"]) {
    assert.throws(() => postgres({ referrer: "site", seed }), { message: /type: "sql-script", path: "seed\.sql"/ });
  }
  await resolveWith({ seed: { type: "sql-script", path: "seed.sql" } });
  assert.match(errors.join(), /The seed .*seed\.sql cannot be read \(ENOENT\)/);
  assert.deepEqual([requests, readdirSync(root)], [[], []]);
});

const PRESENT = {
  "in .env": { files: { ".env": "DATABASE_URL=mine\n" } },
  "in a file with another name": { files: { "db.env": "DATABASE_URL=mine\n" }, options: { dotEnvFile: "db.env" } },
  "in another file that Vite reads": { files: { ".env.development.local": "DATABASE_URL=mine\n" } },
  "under another name": { files: { ".env": "POSTGRES_URL=mine\n" }, options: { dotEnvKey: "POSTGRES_URL" } },
  "and empty": { files: { ".env": "DATABASE_URL=\n" } },
  "in the environment": { variables: { DATABASE_URL: "mine" } },
};
for (const [name, { files = {}, options = {}, variables = {} }] of Object.entries(PRESENT)) {
  test(`nothing is requested if the key exists: ${name}`, async () => {
    for (const [file, text] of Object.entries(files)) {
      writeFileSync(join(root, file), text);
    }
    Object.assign(process.env, variables);
    try {
      await resolveWith(options);
    } finally {
      Object.keys(variables).forEach((variable) => delete process.env[variable]);
    }
    assert.deepEqual([requests, errors, readdirSync(root)], [[], [], Object.keys(files)]);
  });
}

test("nothing is requested in a build and in Vitest", async () => {
  await resolveWith({}, {}, "build");
  process.env.VITEST = "true";
  await resolveWith({}).finally(() => delete process.env.VITEST);
  assert.deepEqual([requests, readdirSync(root)], [[], []]);
});

test("other keys of ours are not overwritten, and the log says so", async () => {
  writeFileSync(join(root, ".env"), "DATABASE_URL_DIRECT=mine\n");
  await resolveWith({});
  assert.match(errors.join(), /already has DATABASE_URL_DIRECT,/);
  assert.deepEqual([requests, writtenNames(".env")], [[], ["DATABASE_URL_DIRECT", ""]]);
});

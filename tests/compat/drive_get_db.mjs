// The published tool's library, led to our server: it has its own address written into it.
// node drive_get_db.mjs NODE_MODULES SERVER ENV_FILE
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [modules, server, file] = process.argv.slice(2);
const asked = [];
const there = globalThis.fetch;
globalThis.fetch = (address, options) => {
  const url = new URL(address);
  asked.push(`${options?.method ?? "GET"} ${url.pathname.replace(/[0-9a-f-]{36}/, "{uuid}")}`);
  return there(server + url.pathname + url.search, options);
};
const { instantPostgres } = await import(pathToFileURL(join(modules, "get-db", "dist", "lib", "instant-postgres.js")));
const made = await instantPostgres({ dotEnvFile: file, referrer: "tests", settings: { logicalReplication: false } });
process.stdout.write(JSON.stringify({ asked, made }) + "\n");

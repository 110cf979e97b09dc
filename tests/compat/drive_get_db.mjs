// Runs the library of the published tool, with requests redirected to our server, because its URL is hard-coded.
// Usage: node drive_get_db.mjs <node_modules> <server url> <environment file>
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [modules, server, file] = process.argv.slice(2);
const requests = [];
const originalFetch = globalThis.fetch;
globalThis.fetch = (address, options) => {
  const url = new URL(address);
  requests.push(`${options?.method ?? "GET"} ${url.pathname.replace(/[0-9a-f-]{36}/, "{uuid}")}`);
  return originalFetch(server + url.pathname + url.search, options);
};
const { instantPostgres } = await import(pathToFileURL(join(modules, "get-db", "dist", "lib", "instant-postgres.js")));
const created = await instantPostgres({ dotEnvFile: file, referrer: "tests", settings: { logicalReplication: false } });
process.stdout.write(JSON.stringify({ requests, created }) + "\n");

// A real Vite with the plugin: `FOLDER ACTION OPTIONS [CONFIG]`. The last line that it says is what was seen.

import { build, createServer, preview } from "vite";
import { postgres } from "vite-plugin-db";

const [root, action, options, more = "{}"] = process.argv.slice(2);
const listening = { host: "127.0.0.1", port: 0 };
const config = {
  root,
  configFile: false,
  plugins: [postgres(JSON.parse(options))],
  server: listening,
  preview: listening,
  optimizeDeps: { noDiscovery: true },
  ...JSON.parse(more),
};

async function seenBy(server) {
  const [url] = server.resolvedUrls.local;
  return { env: server.config.env, served: await (await fetch(`${url}main.js`)).text() };
}

async function dev() {
  const server = await createServer(config);
  await server.listen();
  const first = await seenBy(server);
  await server.restart();
  const second = await seenBy(server);
  await server.close();
  return { first, second };
}

async function built() {
  await build(config);
  const server = await preview(config);
  await server.close();
  return {};
}

console.log(`\n${JSON.stringify(await { dev, build: built }[action]())}`);

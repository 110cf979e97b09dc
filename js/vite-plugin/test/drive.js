// Runs Vite with the plugin: `drive.js FOLDER ACTION OPTIONS [CONFIG]`. The last line of output is the result as JSON.

import { build, createServer, preview } from "vite";
import { postgres } from "vite-plugin-db";

const [root, action, options, extraConfig = "{}"] = process.argv.slice(2);
const address = { host: "127.0.0.1", port: 0 };
const config = {
  root,
  configFile: false,
  plugins: [postgres(JSON.parse(options))],
  server: address,
  preview: address,
  optimizeDeps: { noDiscovery: true },
  ...JSON.parse(extraConfig),
};

async function observe(server) {
  const [url] = server.resolvedUrls.local;
  return { env: server.config.env, served: await (await fetch(`${url}main.js`)).text() };
}

async function dev() {
  const server = await createServer(config);
  await server.listen();
  const first = await observe(server);
  await server.restart();
  const second = await observe(server);
  await server.close();
  return { first, second };
}

async function buildAndPreview() {
  await build(config);
  const server = await preview(config);
  await server.close();
  return {};
}

console.log(`\n${JSON.stringify(await { dev, build: buildAndPreview }[action]())}`);

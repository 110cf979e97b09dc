// Arguments of the Node programs: `NODE_MODULES URI ADDRESS …`. Resolves the host of the URI to the address.

import dns from "node:dns";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, uri, address, ...rest] = process.argv.slice(2);

export const require = createRequire(`${modules}/`);
export const target = new URL(uri);
export const extraArguments = rest;
export const getVersion = (name) => JSON.parse(readFileSync(`${modules}/${name}/package.json`)).version;

const resolve = dns.lookup;
dns.lookup = (name, ...options) => resolve(name === target.hostname ? address : name, ...options);

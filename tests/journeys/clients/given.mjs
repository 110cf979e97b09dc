// What a program of Node was given: `NODE_MODULES URI ADDRESS …`. It finds the URI's host at the address.

import dns from "node:dns";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, uri, address, ...rest] = process.argv.slice(2);

export const require = createRequire(`${modules}/`);
export const where = new URL(uri);
export const more = rest;
export const versionOf = (name) => JSON.parse(readFileSync(`${modules}/${name}/package.json`)).version;

const asked = dns.lookup;
dns.lookup = (name, ...how) => asked(name === where.hostname ? address : name, ...how);

// What programs of Node do in the same way with either client.

import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";

// The table to copy into, made for the session or to stay.
export const TEMPORARY = ["create temp table copied (n int, word text)"];
export const LASTING = ["drop table if exists copied", "create table copied (n int, word text)"];

export const range = (length) => Array.from({ length }, (_, number) => number);
export const sum = (numbers) => numbers.reduce((some, more) => some + Number(more), 0);

export async function state(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return error.code;
  }
}

export async function copyIn(stream) {
  await pipeline(Readable.from(range(10000).map((n) => `${n}\tword ${n}\n`)), stream);
}

export async function sizeOf(stream) {
  let size = 0;
  const count = new Writable({ write: (piece, _encoding, done) => ((size += piece.length), done()) });
  await pipeline(stream, count);
  return size;
}

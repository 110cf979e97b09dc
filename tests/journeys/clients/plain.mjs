// Functions and statements that the programs of both Node clients share.

import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";

// Statements that create the table for COPY.
export const TEMPORARY_TABLE = ["create temp table copied (n int, word text)"];
export const PERMANENT_TABLE = ["drop table if exists copied", "create table copied (n int, word text)"];

export const range = (length) => Array.from({ length }, (_, number) => number);
export const sum = (numbers) => numbers.reduce((total, number) => total + Number(number), 0);

export async function getSqlstate(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return error.code;
  }
}

export async function writeRows(stream) {
  await pipeline(Readable.from(range(10000).map((n) => `${n}\tword ${n}\n`)), stream);
}

export async function countBytes(stream) {
  let size = 0;
  const counter = new Writable({ write: (chunk, _encoding, callback) => ((size += chunk.length), callback()) });
  await pipeline(stream, counter);
  return size;
}

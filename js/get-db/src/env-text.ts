/**
 * The text of an environment file: parses its settings and inserts our block.
 *
 * The text has one character per byte (latin1), so everything that is not ours is preserved in any encoding. Settings
 * are parsed as common loaders do: `export` prefixes, spaces around `=`, and quoted values that span lines.
 */

import type { Names } from "./names.js";

const EXPIRES = "# Expires at: ";
const CLAIM = "# Claim it at: ";
const BYTE_ORDER_MARK = "\xef\xbb\xbf";
const SETTING = /[ \t\v\f]*(export[ \t]+)?([\w.-]+)(?:[ \t]*=|:[ \t])[ \t]*/y;
const REST_OF_LINE = /[ \t]*(?:#[^\r\n]*)?(?=[\r\n]|$)/y;
const LINE = /([^\r\n]*)(\r\n|\r|\n|$)/y;
const OUR_COMMENTS = new RegExp(
  `(?:^(?:${BYTE_ORDER_MARK})?|[\\r\\n])((?:(?:${EXPIRES}|${CLAIM})[^\\r\\n]*(?:\\r\\n|\\r|\\n)){1,2})$`,
);

export interface Setting {
  readonly name: string;
  readonly value: string;
  readonly exported: boolean;
  /** The position of its first character. */
  readonly start: number;
  /** The position after its line break. */
  readonly end: number;
}

export interface DatabaseValues {
  readonly pooled: string;
  readonly direct: string;
  readonly claimUrl: string;
  readonly expiresAt: Date;
}

export function parseSettings(text: string): Setting[] {
  const settings: Setting[] = [];
  let position = text.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK.length : 0;
  while (position < text.length) {
    const setting = parseSetting(text, position);
    if (setting) {
      settings.push(setting);
    }
    position = setting?.end ?? parseLine(text, position).end;
  }
  return settings;
}

/** Inserts the block in place of the first of its variables or at the end; removes an older block of ours. */
export function insertDatabase(text: string, names: Names, values: DatabaseValues): string {
  const newline = /\r?\n/.exec(text)?.[0] ?? "\n";
  const variables: Record<string, string> = {
    [names.pooled]: values.pooled,
    [names.direct]: values.direct,
    [names.claim]: values.claimUrl,
  };
  const old = parseSettings(text).filter((setting) => Object.hasOwn(variables, setting.name));
  const lines = Object.entries(variables).map(([name, value]) =>
    old.some((setting) => setting.name === name && setting.exported) ? `export ${name}='${value}'` : `${name}=${value}`,
  );
  const comments = [EXPIRES + values.expiresAt.toUTCString(), CLAIM + values.claimUrl];
  const block = [...comments, ...lines].map((line) => line + newline).join("");
  return old.length > 0 ? replaceSettings(text, old, block) : text + (/[^\r\n]$/.test(text) ? newline : "") + block;
}

function replaceSettings(text: string, old: readonly Setting[], block: string): string {
  let result = "";
  let position = 0;
  for (const [index, { start, end }] of old.entries()) {
    result += text.slice(position, Math.max(position, startOfOurComments(text, start)));
    result += index === 0 ? block : "";
    position = end;
  }
  return result + text.slice(position);
}

/** The start of our comments directly above this position, or the position itself. */
function startOfOurComments(text: string, start: number): number {
  const comments = OUR_COMMENTS.exec(text.slice(0, start))?.[1] ?? "";
  return start - comments.length;
}

function parseSetting(text: string, start: number): Setting | undefined {
  SETTING.lastIndex = start;
  const match = SETTING.exec(text);
  if (!match) {
    return undefined;
  }
  const valueStart = SETTING.lastIndex;
  const quoted = parseQuotedValue(text, valueStart);
  const line = parseLine(text, quoted?.end ?? valueStart);
  const value = quoted?.value ?? line.text.replace(/#.*$/s, "").trim();
  return { name: match[2] ?? "", value, exported: match[1] !== undefined, start, end: line.end };
}

/** Parses a value in quotes, which may span lines. It counts as quoted only if at most a comment follows it. */
function parseQuotedValue(text: string, start: number): { value: string; end: number } | undefined {
  const quote = text[start];
  if (quote !== '"' && quote !== "'" && quote !== "`") {
    return undefined;
  }
  for (let position = start + 1; position < text.length; position += text[position] === "\\" ? 2 : 1) {
    REST_OF_LINE.lastIndex = position + 1;
    if (text[position] === quote && REST_OF_LINE.test(text)) {
      return { value: text.slice(start + 1, position), end: position + 1 };
    }
    if (text[position] === quote) {
      return undefined;
    }
  }
  return undefined;
}

function parseLine(text: string, start: number): { text: string; end: number } {
  LINE.lastIndex = start;
  const match = LINE.exec(text);
  return { text: match?.[1] ?? "", end: LINE.lastIndex };
}

/**
 * Environment files as text in, text out.
 *
 * The text is one character a byte (latin1), so that what is not ours stays as it was, whatever its encoding. Which
 * lines set a variable is read as the usual loaders read it: `export` before it, spaces around `=`, quotes over lines.
 */

import type { Names } from "./names.js";

const EXPIRES = "# Expires at: ";
const CLAIM = "# Claim it at: ";
const BYTE_ORDER_MARK = "\xef\xbb\xbf";
const SETTING = /[ \t\v\f]*(export[ \t]+)?([\w.-]+)(?:[ \t]*=|:[ \t])[ \t]*/y;
const NOTHING_MORE = /[ \t]*(?:#[^\r\n]*)?(?=[\r\n]|$)/y;
const LINE = /([^\r\n]*)(\r\n|\r|\n|$)/y;
const OUR_COMMENTS = new RegExp(
  `(?:^(?:${BYTE_ORDER_MARK})?|[\\r\\n])((?:(?:${EXPIRES}|${CLAIM})[^\\r\\n]*(?:\\r\\n|\\r|\\n)){1,2})$`,
);

export interface Setting {
  readonly name: string;
  readonly value: string;
  readonly exported: boolean;
  /** From its first character to behind the end of its line. */
  readonly start: number;
  readonly end: number;
}

export interface Values {
  readonly pooled: string;
  readonly direct: string;
  readonly claimUrl: string;
  readonly expiresAt: Date;
}

export function settingsIn(text: string): Setting[] {
  const settings: Setting[] = [];
  let at = text.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK.length : 0;
  while (at < text.length) {
    const setting = settingAt(text, at);
    if (setting) {
      settings.push(setting);
    }
    at = setting?.end ?? lineAt(text, at).end;
  }
  return settings;
}

/** With the block of a database: in the place of what set its names before, else at the end. */
export function withDatabase(text: string, names: Names, values: Values): string {
  const newline = /\r?\n/.exec(text)?.[0] ?? "\n";
  const wanted: Record<string, string> = {
    [names.pooled]: values.pooled,
    [names.direct]: values.direct,
    [names.claim]: values.claimUrl,
  };
  const old = settingsIn(text).filter((setting) => Object.hasOwn(wanted, setting.name));
  const lines = Object.entries(wanted).map(([name, value]) =>
    old.some((setting) => setting.name === name && setting.exported) ? `export ${name}='${value}'` : `${name}=${value}`,
  );
  const comments = [EXPIRES + values.expiresAt.toUTCString(), CLAIM + values.claimUrl];
  const block = [...comments, ...lines].map((line) => line + newline).join("");
  return old.length > 0 ? replaced(text, old, block) : text + (/[^\r\n]$/.test(text) ? newline : "") + block;
}

function replaced(text: string, old: readonly Setting[], block: string): string {
  let kept = "";
  let at = 0;
  for (const [index, { start, end }] of old.entries()) {
    kept += text.slice(at, Math.max(at, withoutOurComments(text, start)));
    kept += index === 0 ? block : "";
    at = end;
  }
  return kept + text.slice(at);
}

/** Where our comments begin that stand directly before. */
function withoutOurComments(text: string, start: number): number {
  const comments = OUR_COMMENTS.exec(text.slice(0, start))?.[1] ?? "";
  return start - comments.length;
}

function settingAt(text: string, start: number): Setting | undefined {
  SETTING.lastIndex = start;
  const found = SETTING.exec(text);
  if (!found) {
    return undefined;
  }
  const from = SETTING.lastIndex;
  const quoted = quotedAt(text, from);
  const line = lineAt(text, quoted?.end ?? from);
  const value = quoted?.value ?? line.text.replace(/#.*$/s, "").trim();
  return { name: found[2] ?? "", value, exported: found[1] !== undefined, start, end: line.end };
}

/** A value in quotes, which may go over lines, when nothing but a comment follows it. */
function quotedAt(text: string, from: number): { value: string; end: number } | undefined {
  const quote = text[from];
  if (quote !== '"' && quote !== "'" && quote !== "`") {
    return undefined;
  }
  for (let at = from + 1; at < text.length; at += text[at] === "\\" ? 2 : 1) {
    NOTHING_MORE.lastIndex = at + 1;
    if (text[at] === quote && NOTHING_MORE.test(text)) {
      return { value: text.slice(from + 1, at), end: at + 1 };
    }
    if (text[at] === quote) {
      return undefined;
    }
  }
  return undefined;
}

function lineAt(text: string, start: number): { text: string; end: number } {
  LINE.lastIndex = start;
  const found = LINE.exec(text);
  return { text: found?.[1] ?? "", end: LINE.lastIndex };
}

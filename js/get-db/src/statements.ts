/** Where the statements of an SQL text begin, so that one can be found by its number. */

const BLANK = /\s+|--[^\n]*/y;
const DOLLAR = /\$(?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?\$/y;
const WORD = /[A-Za-z_\x80-\uffff][\w$\x80-\uffff]*/y;

export function statementStarts(sql: string): number[] {
  const starts: number[] = [];
  let isInside = false;
  let parentheses = 0;
  let bodies = 0; // BEGIN ATOMIC … END, with CASE … END in it
  let last = "";
  for (let at = 0; at < sql.length;) {
    const blank = blankAt(sql, at);
    if (blank > at) {
      at = blank;
      continue;
    }
    const end = tokenEnd(sql, at, last);
    const token = sql.slice(at, end).toLowerCase();
    if (token === ";" && parentheses === 0 && bodies === 0) {
      isInside = false;
    } else if (!isInside) {
      starts.push(at);
      isInside = true;
    }
    parentheses = Math.max(0, parentheses + depth(token, "(", ")"));
    bodies += bodyDepth(token, last, bodies);
    last = token;
    at = end;
  }
  return starts;
}

function depth(token: string, opening: string, closing: string): number {
  return token === opening ? 1 : token === closing ? -1 : 0;
}

function bodyDepth(token: string, last: string, bodies: number): number {
  if (token === "atomic" && last === "begin") {
    return 1;
  }
  return bodies > 0 ? depth(token, "case", "end") : 0;
}

function blankAt(sql: string, at: number): number {
  const end = matched(BLANK, sql, at);
  return sql.startsWith("/*", end) ? commentEnd(sql, end) : end;
}

/** Comments nest. */
function commentEnd(sql: string, start: number): number {
  let open = 0;
  for (let at = start; at < sql.length; at += 1) {
    if (sql.startsWith("/*", at)) {
      open += 1;
      at += 1;
    } else if (sql.startsWith("*/", at)) {
      open -= 1;
      at += 1;
      if (open === 0) {
        return at + 1;
      }
    }
  }
  return sql.length;
}

function tokenEnd(sql: string, at: number, last: string): number {
  switch (sql[at]) {
    case "'":
      return quotedEnd(sql, at, last === "e" && /e/i.test(sql[at - 1] ?? ""));
    case '"':
      return quotedEnd(sql, at, false);
    case "$": {
      const opened = matched(DOLLAR, sql, at);
      const tag = sql.slice(at, opened);
      const closing = tag ? sql.indexOf(tag, opened) : -1;
      return tag ? (closing < 0 ? sql.length : closing + tag.length) : at + 1;
    }
    default:
      return Math.max(at + 1, matched(WORD, sql, at));
  }
}

function quotedEnd(sql: string, start: number, hasEscapes: boolean): number {
  const quote = sql[start];
  for (let at = start + 1; at < sql.length; at += 1) {
    if (hasEscapes && sql[at] === "\\") {
      at += 1;
    } else if (sql[at] === quote) {
      if (sql[at + 1] !== quote) {
        return at + 1;
      }
      at += 1;
    }
  }
  return sql.length;
}

function matched(what: RegExp, sql: string, at: number): number {
  what.lastIndex = at;
  return what.test(sql) ? what.lastIndex : at;
}

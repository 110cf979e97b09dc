/** Finds the start of every statement in an SQL text, so that a statement can be found by its number. */

const BLANK = /\s+|--[^\n]*/y;
const DOLLAR_QUOTE = /\$(?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?\$/y;
const WORD = /[A-Za-z_\x80-\uffff][\w$\x80-\uffff]*/y;

export function statementStarts(sql: string): number[] {
  const starts: number[] = [];
  let isInStatement = false;
  let parentheses = 0;
  let bodies = 0; // BEGIN ATOMIC … END, with CASE … END in it
  let previous = "";
  for (let position = 0; position < sql.length;) {
    const blankEnd = skipBlank(sql, position);
    if (blankEnd > position) {
      position = blankEnd;
      continue;
    }
    const end = tokenEnd(sql, position, previous);
    const token = sql.slice(position, end).toLowerCase();
    if (token === ";" && parentheses === 0 && bodies === 0) {
      isInStatement = false;
    } else if (!isInStatement) {
      starts.push(position);
      isInStatement = true;
    }
    parentheses = Math.max(0, parentheses + depthChange(token, "(", ")"));
    bodies += bodyDepthChange(token, previous, bodies);
    previous = token;
    position = end;
  }
  return starts;
}

function depthChange(token: string, opening: string, closing: string): number {
  return token === opening ? 1 : token === closing ? -1 : 0;
}

function bodyDepthChange(token: string, previous: string, bodies: number): number {
  if (token === "atomic" && previous === "begin") {
    return 1;
  }
  return bodies > 0 ? depthChange(token, "case", "end") : 0;
}

function skipBlank(sql: string, start: number): number {
  const end = matchEnd(BLANK, sql, start);
  return sql.startsWith("/*", end) ? commentEnd(sql, end) : end;
}

/** Comments nest in Postgres. */
function commentEnd(sql: string, start: number): number {
  let depth = 0;
  for (let position = start; position < sql.length; position += 1) {
    if (sql.startsWith("/*", position)) {
      depth += 1;
      position += 1;
    } else if (sql.startsWith("*/", position)) {
      depth -= 1;
      position += 1;
      if (depth === 0) {
        return position + 1;
      }
    }
  }
  return sql.length;
}

function tokenEnd(sql: string, start: number, previous: string): number {
  switch (sql[start]) {
    case "'":
      return quotedEnd(sql, start, previous === "e" && /e/i.test(sql[start - 1] ?? ""));
    case '"':
      return quotedEnd(sql, start, false);
    case "$": {
      const tagEnd = matchEnd(DOLLAR_QUOTE, sql, start);
      const tag = sql.slice(start, tagEnd);
      const closing = tag ? sql.indexOf(tag, tagEnd) : -1;
      return tag ? (closing < 0 ? sql.length : closing + tag.length) : start + 1;
    }
    default:
      return Math.max(start + 1, matchEnd(WORD, sql, start));
  }
}

function quotedEnd(sql: string, start: number, hasEscapes: boolean): number {
  const quote = sql[start];
  for (let position = start + 1; position < sql.length; position += 1) {
    if (hasEscapes && sql[position] === "\\") {
      position += 1;
    } else if (sql[position] === quote) {
      if (sql[position + 1] !== quote) {
        return position + 1;
      }
      position += 1;
    }
  }
  return sql.length;
}

function matchEnd(pattern: RegExp, sql: string, start: number): number {
  pattern.lastIndex = start;
  return pattern.test(sql) ? pattern.lastIndex : start;
}

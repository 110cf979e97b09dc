/** An error whose message says what is wrong and what to do, and contains no password. */
export class Problem extends Error {
  override readonly name: string = "Problem";
  readonly exitCode: number = 1;
}

/** The command line is invalid. */
export class UsageProblem extends Problem {
  override readonly name = "UsageProblem";
  override readonly exitCode = 2;
}

/** The user canceled a prompt. */
export class Canceled extends Error {}

export function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).code === "string";
}

/** Makes text from outside, such as a message of a server, safe to print: one short line, no control characters. */
export function sanitize(text: string, maxLength = 300): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ").trim();
  return line.length > maxLength ? `${line.slice(0, maxLength)}…` : line;
}

export function joinWords(words: readonly string[]): string {
  return words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words.join("");
}

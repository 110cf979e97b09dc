/** What went wrong and what to do next, in sentences that anyone may read: they hold no password. */
export class Problem extends Error {
  override readonly name: string = "Problem";
  readonly exitCode: number = 1;
}

/** The command line itself makes no sense. */
export class UsageProblem extends Problem {
  override readonly name = "UsageProblem";
  override readonly exitCode = 2;
}

/** The person at the terminal left. */
export class Cancelled extends Error {}

export function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).code === "string";
}

/** Text from elsewhere, such as a server's message: on one line, without control characters, and not endless. */
export function plain(text: string, most = 300): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ").trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

export function listed(words: readonly string[]): string {
  return words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words.join("");
}

/** Connection strings: the pooled one that the platform gives, the direct one beside it, and its parts. */

const PARTS = /^(postgres(?:ql)?:\/\/[^/?#@]+@)([^/?#@]+)(\/[^?#]*(?:\?.*)?)$/;

export interface Target {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  readonly sslmode: string;
}

export function isConnectionString(text: string): boolean {
  return PARTS.test(text) && URL.canParse(text);
}

/** The same, without `-pooler` in the host. */
export function directOf(pooled: string): string {
  const [, before = "", host = "", after = ""] = PARTS.exec(pooled) ?? [];
  return `${before}${host.replace("-pooler", "")}${after}`;
}

export function targetOf(connection: string): Target {
  const url = new URL(connection);
  return {
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: Number(url.port || 5432),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database: decodeURIComponent(url.pathname.slice(1)),
    sslmode: url.searchParams.get("sslmode") ?? "prefer",
  };
}

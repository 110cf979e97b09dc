/** Connection strings: validates the pooled one, derives the direct one and splits them into parameters. */

const CONNECTION_STRING = /^(postgres(?:ql)?:\/\/[^/?#@]+@)([^/?#@]+)(\/[^?#]*(?:\?.*)?)$/;

export interface ConnectionParameters {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  readonly sslmode: string;
}

export function isConnectionString(text: string): boolean {
  return CONNECTION_STRING.test(text) && URL.canParse(text);
}

/** Removes `-pooler` from the host. */
export function directConnectionStringOf(pooled: string): string {
  const [, prefix = "", host = "", suffix = ""] = CONNECTION_STRING.exec(pooled) ?? [];
  return `${prefix}${host.replace("-pooler", "")}${suffix}`;
}

export function parseConnectionString(connectionString: string): ConnectionParameters {
  const url = new URL(connectionString);
  return {
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: Number(url.port || 5432),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database: decodeURIComponent(url.pathname.slice(1)),
    sslmode: url.searchParams.get("sslmode") ?? "prefer",
  };
}

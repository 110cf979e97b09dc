/** The URL of the platform if none is specified; the build may replace the compiled file. */
export const DEFAULT_HOST: string = "http://localhost:8432";

/** The address that is asked when none is given; the build may replace this file's result. */
export const DEFAULT_HOST: string = "http://localhost:8432";

/** The public API of the package. */

export { readClaimUrl } from "./claim.js";
export { getDb, hasKey, KeysExist, SeedFailed, type GetDbOptions, type GetDbResult } from "./get-db.js";
export { resolveHost } from "./host.js";
export { Problem } from "./problem.js";
export { createDatabase, type CreateDatabaseOptions, type Database } from "./service.js";

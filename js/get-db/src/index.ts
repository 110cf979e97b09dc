/** What other programs may use. */

export { claimUrlIn } from "./claim.js";
export { getDb, hasKey, KeysExist, SeedFailed, type Got, type Wish } from "./get-db.js";
export { chosenHost } from "./host.js";
export { Problem } from "./problem.js";
export { createDatabase, type Database, type Order } from "./service.js";

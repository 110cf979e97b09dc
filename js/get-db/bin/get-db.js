#!/usr/bin/env node
// Here before anything is built, so that npm makes a link to it; the program itself is in dist/.
import "../dist/main.js";

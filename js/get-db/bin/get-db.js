#!/usr/bin/env node
// This file is not built, so that npm can link to it before the first build. The program itself is in dist/.
import "../dist/main.js";

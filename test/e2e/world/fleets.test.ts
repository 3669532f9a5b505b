import { testScripts } from "../../support/world/testScripts.ts";

testScripts("fleets");

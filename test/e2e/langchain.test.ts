import { langchainClients } from "../support/sdk/langchain.ts";
import { prove } from "../support/sdk/situations.ts";

for (const client of langchainClients) prove(client);

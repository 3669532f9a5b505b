import { langchainClients } from "../support/sdk/langchain.ts";
import { prove } from "../support/sdk/situations.ts";

prove(langchainClients);

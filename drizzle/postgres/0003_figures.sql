-- What is billed besides tokens gets rows of its own. The row of a request says only that there are some, and what they cost
-- together. Where there are none, this price is what 0.2.0 recorded for a web search.
ALTER TABLE "requests" RENAME COLUMN "web_searches" TO "has_figures";--> statement-breakpoint
ALTER TABLE "requests" RENAME COLUMN "price_web_search" TO "figures_price";--> statement-breakpoint
ALTER TABLE "requests" DISABLE TRIGGER USER;--> statement-breakpoint
CREATE TABLE "request_figures" (
	"request_id" bigint NOT NULL,
	"figure" text COLLATE "C" NOT NULL,
	"quantity" bigint NOT NULL,
	"price" bigint NOT NULL,
	CONSTRAINT "request_figures_request_id_figure_pk" PRIMARY KEY("request_id","figure"),
	CONSTRAINT "request_figures_amounts" CHECK ("request_figures"."quantity" > 0 AND "request_figures"."price" >= 0)
);
--> statement-breakpoint
CREATE TABLE "daily_figures" (
	"day" bigint NOT NULL,
	"account_id" bigint NOT NULL,
	"key_id" bigint NOT NULL,
	"model" text COLLATE "C" NOT NULL,
	"provider" text COLLATE "C" NOT NULL,
	"endpoint" text COLLATE "C" NOT NULL,
	"figure" text COLLATE "C" NOT NULL,
	"quantity" bigint NOT NULL,
	CONSTRAINT "daily_figures_day_account_id_key_id_model_provider_endpoint_figure_pk" PRIMARY KEY("day","account_id","key_id","model","provider","endpoint","figure")
);
--> statement-breakpoint
INSERT INTO request_figures SELECT id, 'web_searches', has_figures, figures_price FROM requests WHERE has_figures > 0;--> statement-breakpoint
INSERT INTO daily_figures SELECT day, account_id, key_id, model, provider, endpoint, 'web_searches', web_searches FROM daily_totals WHERE web_searches > 0;--> statement-breakpoint
UPDATE requests SET has_figures = 1, figures_price = has_figures * figures_price WHERE has_figures > 0;--> statement-breakpoint
ALTER TABLE "requests" ENABLE TRIGGER USER;--> statement-breakpoint
ALTER TABLE "daily_totals" DROP COLUMN "web_searches";--> statement-breakpoint
ALTER TABLE "request_figures" ADD CONSTRAINT "request_figures_request_id_requests_id_fk" FOREIGN KEY ("request_id") REFERENCES "requests"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "daily_figures" ADD CONSTRAINT "daily_figures_account_id_accounts_id_fk" FOREIGN KEY ("account_id") REFERENCES "accounts"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "daily_figures" ADD CONSTRAINT "daily_figures_key_id_keys_id_fk" FOREIGN KEY ("key_id") REFERENCES "keys"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint

-- The figures of a request come with its end, and cost no more than it says. The audit proves that they cost as much.
CREATE FUNCTION request_figures_belong() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (
		SELECT 1 FROM requests
		WHERE id = NEW.request_id AND status <> 'running' AND has_figures = 1
			AND NEW.quantity::numeric * NEW.price + (
				SELECT coalesce(sum(quantity::numeric * price), 0) FROM request_figures WHERE request_id = NEW.request_id
			) <= figures_price
	) IS NULL THEN
		RAISE integrity_constraint_violation USING MESSAGE = 'request_figures: the request has no such figure';
	END IF;
	RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER request_figures_belong BEFORE INSERT ON request_figures FOR EACH ROW
EXECUTE FUNCTION request_figures_belong();
--> statement-breakpoint
CREATE TRIGGER request_figures_stay BEFORE UPDATE ON request_figures FOR EACH STATEMENT
EXECUTE FUNCTION refuse('request_figures: rows are never changed');
--> statement-breakpoint
CREATE FUNCTION request_figures_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT 1 FROM requests WHERE id = OLD.request_id AND at >= (SELECT kept_since FROM retention)) IS NOT NULL THEN
		RAISE integrity_constraint_violation
			USING MESSAGE = 'request_figures: only those of requests that may be folded are removed';
	END IF;
	RETURN OLD;
END $$;
--> statement-breakpoint
CREATE TRIGGER request_figures_keep BEFORE DELETE ON request_figures FOR EACH ROW
EXECUTE FUNCTION request_figures_keep();
--> statement-breakpoint
CREATE TRIGGER request_figures_keep_all BEFORE TRUNCATE ON request_figures FOR EACH STATEMENT
EXECUTE FUNCTION refuse('request_figures: only those of requests that may be folded are removed');
--> statement-breakpoint
CREATE TRIGGER daily_figures_keep BEFORE DELETE OR TRUNCATE ON daily_figures FOR EACH STATEMENT
EXECUTE FUNCTION refuse('daily_figures: totals are never removed');

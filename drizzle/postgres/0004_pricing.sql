ALTER TABLE "accounts" ADD COLUMN "plan" text COLLATE "C";--> statement-breakpoint
ALTER TABLE "requests" ADD COLUMN "pricing" text COLLATE "C";--> statement-breakpoint
DROP TRIGGER accounts_changed ON accounts;--> statement-breakpoint
CREATE CONSTRAINT TRIGGER accounts_changed AFTER UPDATE OF overdraft, disabled, plan ON accounts
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.overdraft <> OLD.overdraft OR NEW.disabled <> OLD.disabled OR NEW.plan IS DISTINCT FROM OLD.plan)
EXECUTE FUNCTION accounts_changed();

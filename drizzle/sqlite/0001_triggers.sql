-- A balance changes in no other way than by a row that is appended to the ledger.
CREATE TRIGGER `ledger_follows` BEFORE INSERT ON `ledger`
BEGIN
	SELECT RAISE(ABORT, 'ledger: the account has no such next row')
	WHERE NOT EXISTS (
		SELECT 1 FROM `accounts`
		WHERE `id` = NEW.`account_id`
			AND `ledger_seq` + 1 = NEW.`seq`
			AND `balance` + NEW.`amount` = NEW.`balance_after`
	);
END;
--> statement-breakpoint
CREATE TRIGGER `ledger_moves_balance` AFTER INSERT ON `ledger`
BEGIN
	UPDATE `accounts` SET `balance` = NEW.`balance_after`, `ledger_seq` = NEW.`seq`
	WHERE `id` = NEW.`account_id`;
END;
--> statement-breakpoint
CREATE TRIGGER `ledger_keeps` BEFORE UPDATE ON `ledger`
BEGIN
	SELECT RAISE(ABORT, 'ledger: rows are never changed');
END;
--> statement-breakpoint
CREATE TRIGGER `ledger_keeps_all` BEFORE DELETE ON `ledger`
BEGIN
	SELECT RAISE(ABORT, 'ledger: rows are never removed');
END;
--> statement-breakpoint
CREATE TRIGGER `accounts_start_empty` BEFORE INSERT ON `accounts`
WHEN NEW.`balance` <> 0 OR NEW.`ledger_seq` <> 0
BEGIN
	SELECT RAISE(ABORT, 'accounts: a new account has an empty ledger');
END;
--> statement-breakpoint
CREATE TRIGGER `accounts_follow_ledger` BEFORE UPDATE OF `balance`, `ledger_seq` ON `accounts`
BEGIN
	SELECT RAISE(ABORT, 'accounts: the balance follows the ledger only')
	WHERE NOT EXISTS (
		SELECT 1 FROM `ledger`
		WHERE `account_id` = NEW.`id` AND `seq` = NEW.`ledger_seq` AND `balance_after` = NEW.`balance`
	);
END;
--> statement-breakpoint
CREATE TRIGGER `accounts_keep` BEFORE DELETE ON `accounts`
BEGIN
	SELECT RAISE(ABORT, 'accounts: accounts are never removed');
END;
--> statement-breakpoint
-- A request leaves the state `running` exactly once, and what it was held and priced at stays.
CREATE TRIGGER `requests_end_once` BEFORE UPDATE ON `requests`
BEGIN
	SELECT RAISE(ABORT, 'requests: a request ends exactly once')
	WHERE OLD.`status` <> 'running' OR NEW.`status` = 'running';
	SELECT RAISE(ABORT, 'requests: what was held is never changed')
	WHERE NEW.`hold` <> OLD.`hold` OR NEW.`account_id` <> OLD.`account_id` OR NEW.`key_id` <> OLD.`key_id`
		OR NEW.`price_input` <> OLD.`price_input` OR NEW.`price_output` <> OLD.`price_output`
		OR NEW.`price_cached_input` <> OLD.`price_cached_input` OR NEW.`price_cache_write` <> OLD.`price_cache_write`;
END;
--> statement-breakpoint
CREATE TRIGGER `requests_start_running` BEFORE INSERT ON `requests`
WHEN NEW.`status` <> 'running' OR NEW.`charge` <> 0 OR NEW.`write_off` <> 0
BEGIN
	SELECT RAISE(ABORT, 'requests: a request starts running and uncharged');
END;
--> statement-breakpoint
CREATE TRIGGER `admin_log_keeps` BEFORE UPDATE ON `admin_log`
BEGIN
	SELECT RAISE(ABORT, 'admin_log: rows are never changed');
END;
--> statement-breakpoint
CREATE TRIGGER `admin_log_keeps_all` BEFORE DELETE ON `admin_log`
BEGIN
	SELECT RAISE(ABORT, 'admin_log: rows are never removed');
END;

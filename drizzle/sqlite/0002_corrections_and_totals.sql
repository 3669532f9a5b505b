CREATE TABLE `daily_totals` (
	`day` integer NOT NULL,
	`account_id` integer NOT NULL,
	`key_id` integer NOT NULL,
	`model` text NOT NULL,
	`provider` text NOT NULL,
	`endpoint` text NOT NULL,
	`requests` integer NOT NULL,
	`failed` integer NOT NULL,
	`charged` integer NOT NULL,
	`prompt_tokens` integer NOT NULL,
	`cached_tokens` integer NOT NULL,
	`cache_write_tokens` integer NOT NULL,
	`completion_tokens` integer NOT NULL,
	`charge` integer NOT NULL,
	`refunded` integer DEFAULT 0 NOT NULL,
	`write_off` integer NOT NULL,
	`operator_cost` integer NOT NULL,
	PRIMARY KEY(`day`, `account_id`, `key_id`, `model`, `provider`, `endpoint`),
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`key_id`) REFERENCES `keys`(`id`) ON UPDATE no action ON DELETE no action
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `retention` (
	`id` integer PRIMARY KEY NOT NULL,
	`kept_since` integer NOT NULL
) STRICT;
--> statement-breakpoint
DROP INDEX `requests_running`;--> statement-breakpoint
CREATE INDEX `requests_not_done` ON `requests` (`status`,`account_id`) WHERE status <> 'done';--> statement-breakpoint
ALTER TABLE `keys` ADD `first_key_id` integer REFERENCES keys(id);--> statement-breakpoint
ALTER TABLE `ledger` ADD `refund_of` integer REFERENCES ledger(id);--> statement-breakpoint
CREATE INDEX `ledger_refunds` ON `ledger` (`refund_of`) WHERE refund_of IS NOT NULL;
--> statement-breakpoint
INSERT INTO `retention` (`id`, `kept_since`) VALUES (1, 0);
--> statement-breakpoint
-- What ended before this version counted; from here on a trigger does.
INSERT INTO `daily_totals`
SELECT `at` / 86400000, `account_id`, `key_id`, `model`, coalesce(`provider`, ''), `endpoint`,
	count(*), sum(`status` IN ('failed', 'interrupted')), sum(`status` = 'done' OR `charge` > 0),
	sum(`prompt_tokens`), sum(`cached_tokens`), sum(`cache_write_tokens`), sum(`completion_tokens`),
	sum(`charge`), 0, sum(`write_off`), sum(coalesce(`operator_cost`, 0))
FROM `requests`
WHERE `status` <> 'running'
GROUP BY 1, 2, 3, 4, 5, 6;
--> statement-breakpoint
DROP TRIGGER `ledger_follows`;
--> statement-breakpoint
-- A connection of another program may have recursive_triggers off: its INSERT OR REPLACE removes rows
-- without asking the triggers that forbid it. Hence each table's own refusal of a row that is there.
CREATE TRIGGER `ledger_follows` BEFORE INSERT ON `ledger`
BEGIN
	SELECT RAISE(ABORT, 'ledger: the account has no such next row')
	WHERE NOT EXISTS (
		SELECT 1 FROM `accounts`
		WHERE `id` = NEW.`account_id`
			AND `ledger_seq` + 1 = NEW.`seq`
			AND `balance` + NEW.`amount` = NEW.`balance_after`
	);
	SELECT RAISE(ABORT, 'ledger: that ref or id is there already')
	WHERE EXISTS (SELECT 1 FROM `ledger` WHERE `ref` = NEW.`ref`)
		OR EXISTS (SELECT 1 FROM `ledger` WHERE `id` = NEW.`id`);
END;
--> statement-breakpoint
-- Never more is given back than was charged, and only while the request is kept: its key and its day get it back.
CREATE TRIGGER `ledger_refunds_charge` BEFORE INSERT ON `ledger`
WHEN NEW.`kind` = 'refund' OR NEW.`refund_of` IS NOT NULL
BEGIN
	SELECT RAISE(ABORT, 'ledger: a refund gives back what is left of a charge of a request that is kept')
	WHERE NEW.`kind` <> 'refund' OR NOT EXISTS (
		SELECT 1 FROM `ledger` AS `charge`
		JOIN `requests` ON `requests`.`public_id` = substr(`charge`.`ref`, 5)
		WHERE `charge`.`id` = NEW.`refund_of` AND `charge`.`kind` = 'charge'
			AND `charge`.`account_id` = NEW.`account_id`
			AND NEW.`amount` <= -`charge`.`amount`
				- (SELECT coalesce(sum(`amount`), 0) FROM `ledger` WHERE `refund_of` = NEW.`refund_of`)
	);
END;
--> statement-breakpoint
CREATE TRIGGER `ledger_refund_counts` AFTER INSERT ON `ledger`
WHEN NEW.`kind` = 'refund'
BEGIN
	UPDATE `daily_totals` SET `refunded` = `refunded` + NEW.`amount`
	WHERE (`day`, `account_id`, `key_id`, `model`, `provider`, `endpoint`) = (
		SELECT `at` / 86400000, `account_id`, `key_id`, `model`, coalesce(`provider`, ''), `endpoint`
		FROM `requests` WHERE `public_id` = (SELECT substr(`ref`, 5) FROM `ledger` WHERE `id` = NEW.`refund_of`)
	);
	UPDATE `keys` SET `spent` = `spent` - NEW.`amount`
	WHERE `id` = (
		SELECT coalesce(`first_key_id`, `keys`.`id`) FROM `requests` JOIN `keys` ON `keys`.`id` = `requests`.`key_id`
		WHERE `requests`.`public_id` = (SELECT substr(`ref`, 5) FROM `ledger` WHERE `id` = NEW.`refund_of`)
	);
END;
--> statement-breakpoint
DROP TRIGGER `accounts_start_empty`;
--> statement-breakpoint
CREATE TRIGGER `accounts_start_empty` BEFORE INSERT ON `accounts`
BEGIN
	SELECT RAISE(ABORT, 'accounts: a new account has an empty ledger')
	WHERE NEW.`balance` <> 0 OR NEW.`ledger_seq` <> 0;
	SELECT RAISE(ABORT, 'accounts: that name or id is there already')
	WHERE EXISTS (SELECT 1 FROM `accounts` WHERE `name` = NEW.`name` OR `id` = NEW.`id`);
END;
--> statement-breakpoint
CREATE TRIGGER `accounts_stay_themselves` BEFORE UPDATE OF `id`, `name` ON `accounts`
WHEN NEW.`id` <> OLD.`id` OR NEW.`name` <> OLD.`name`
BEGIN
	SELECT RAISE(ABORT, 'accounts: an account keeps its name and id');
END;
--> statement-breakpoint
DROP TRIGGER `accounts_follow_ledger`;
--> statement-breakpoint
CREATE TRIGGER `accounts_follow_ledger` BEFORE UPDATE OF `balance`, `ledger_seq` ON `accounts`
BEGIN
	SELECT RAISE(ABORT, 'accounts: the balance follows the ledger only')
	WHERE NEW.`ledger_seq` <> OLD.`ledger_seq` + 1 OR NOT EXISTS (
		SELECT 1 FROM `ledger`
		WHERE `account_id` = NEW.`id` AND `seq` = NEW.`ledger_seq` AND `balance_after` = NEW.`balance`
	);
END;
--> statement-breakpoint
CREATE TRIGGER `admin_log_appends` BEFORE INSERT ON `admin_log`
WHEN EXISTS (SELECT 1 FROM `admin_log` WHERE `id` = NEW.`id`)
BEGIN
	SELECT RAISE(ABORT, 'admin_log: that id is there already');
END;
--> statement-breakpoint
DROP TRIGGER `requests_start_running`;
--> statement-breakpoint
CREATE TRIGGER `requests_start_running` BEFORE INSERT ON `requests`
BEGIN
	SELECT RAISE(ABORT, 'requests: a request starts running and uncharged')
	WHERE NEW.`status` <> 'running' OR NEW.`charge` <> 0 OR NEW.`write_off` <> 0;
	SELECT RAISE(ABORT, 'requests: that id is there already')
	WHERE EXISTS (SELECT 1 FROM `requests` WHERE `public_id` = NEW.`public_id`)
		OR EXISTS (SELECT 1 FROM `requests` WHERE `id` = NEW.`id`);
END;
--> statement-breakpoint
DROP TRIGGER `requests_end_once`;
--> statement-breakpoint
-- A request leaves the state `running` exactly once, and what it was admitted with stays.
CREATE TRIGGER `requests_end_once` BEFORE UPDATE ON `requests`
BEGIN
	SELECT RAISE(ABORT, 'requests: a request ends exactly once')
	WHERE OLD.`status` <> 'running' OR NEW.`status` = 'running';
	SELECT RAISE(ABORT, 'requests: what was held is never changed')
	WHERE NEW.`hold` <> OLD.`hold` OR NEW.`account_id` <> OLD.`account_id` OR NEW.`key_id` <> OLD.`key_id`
		OR NEW.`price_input` <> OLD.`price_input` OR NEW.`price_output` <> OLD.`price_output`
		OR NEW.`price_cached_input` <> OLD.`price_cached_input` OR NEW.`price_cache_write` <> OLD.`price_cache_write`
		OR NEW.`id` <> OLD.`id` OR NEW.`public_id` <> OLD.`public_id` OR NEW.`at` <> OLD.`at`
		OR NEW.`model` <> OLD.`model` OR NEW.`endpoint` <> OLD.`endpoint`;
END;
--> statement-breakpoint
-- Whoever ends a request: it is counted in the totals of its day, and its charge in what its key has spent.
CREATE TRIGGER `requests_count` AFTER UPDATE ON `requests`
BEGIN
	INSERT INTO `daily_totals` VALUES (
		NEW.`at` / 86400000, NEW.`account_id`, NEW.`key_id`, NEW.`model`, coalesce(NEW.`provider`, ''), NEW.`endpoint`,
		1, NEW.`status` IN ('failed', 'interrupted'), NEW.`status` = 'done' OR NEW.`charge` > 0,
		NEW.`prompt_tokens`, NEW.`cached_tokens`, NEW.`cache_write_tokens`, NEW.`completion_tokens`,
		NEW.`charge`, 0, NEW.`write_off`, coalesce(NEW.`operator_cost`, 0)
	)
	ON CONFLICT DO UPDATE SET
		`requests` = `requests` + 1,
		`failed` = `failed` + excluded.`failed`,
		`charged` = `charged` + excluded.`charged`,
		`prompt_tokens` = `prompt_tokens` + excluded.`prompt_tokens`,
		`cached_tokens` = `cached_tokens` + excluded.`cached_tokens`,
		`cache_write_tokens` = `cache_write_tokens` + excluded.`cache_write_tokens`,
		`completion_tokens` = `completion_tokens` + excluded.`completion_tokens`,
		`charge` = `charge` + excluded.`charge`,
		`write_off` = min(`write_off` + excluded.`write_off`, 9223372036854775807),
		`operator_cost` = min(`operator_cost` + excluded.`operator_cost`, 9223372036854775807);
	UPDATE `keys` SET `spent` = `spent` + NEW.`charge`
	WHERE NEW.`charge` > 0
		AND `id` = (SELECT coalesce(`first_key_id`, `id`) FROM `keys` WHERE `id` = NEW.`key_id`);
END;
--> statement-breakpoint
-- A request goes only when its day's totals are all that is kept.
CREATE TRIGGER `requests_keep` BEFORE DELETE ON `requests`
WHEN OLD.`status` = 'running' OR OLD.`at` >= (SELECT `kept_since` FROM `retention`)
BEGIN
	SELECT RAISE(ABORT, 'requests: only ended ones that are older than retention keeps are removed');
END;
--> statement-breakpoint
CREATE TRIGGER `daily_totals_keep` BEFORE DELETE ON `daily_totals`
BEGIN
	SELECT RAISE(ABORT, 'daily_totals: totals are never removed');
END;
--> statement-breakpoint
CREATE TRIGGER `retention_grows` BEFORE UPDATE ON `retention`
WHEN NEW.`kept_since` < OLD.`kept_since` OR NEW.`id` <> OLD.`id`
BEGIN
	SELECT RAISE(ABORT, 'retention: what was folded is not kept again');
END;
--> statement-breakpoint
CREATE TRIGGER `retention_is_one` BEFORE INSERT ON `retention`
BEGIN
	SELECT RAISE(ABORT, 'retention: there is one row');
END;
--> statement-breakpoint
CREATE TRIGGER `retention_stays` BEFORE DELETE ON `retention`
BEGIN
	SELECT RAISE(ABORT, 'retention: there is one row');
END;

CREATE TABLE `voucher_start` (
	`id` integer PRIMARY KEY NOT NULL,
	`ledger_id` integer NOT NULL
) STRICT;
--> statement-breakpoint
-- Operators could choose refs with the prefix `voucher:` until now.
INSERT INTO `voucher_start` (`id`, `ledger_id`) SELECT 1, coalesce(max(`id`), 0) FROM `ledger`;
--> statement-breakpoint
CREATE TABLE `vouchers` (
	`id` integer PRIMARY KEY NOT NULL,
	`public_id` text NOT NULL,
	`hash` blob NOT NULL,
	`prefix` text NOT NULL,
	`amount` integer NOT NULL,
	`note` text,
	`created_at` integer NOT NULL,
	`expires_at` integer,
	`revoked_at` integer,
	`redeemed_at` integer,
	`redeemed_by` integer,
	FOREIGN KEY (`redeemed_by`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "vouchers_amount" CHECK("vouchers"."amount" > 0),
	CONSTRAINT "vouchers_end" CHECK(("vouchers"."redeemed_at" IS NULL) = ("vouchers"."redeemed_by" IS NULL) AND ("vouchers"."redeemed_at" IS NULL OR "vouchers"."revoked_at" IS NULL))
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `vouchers_public_id_unique` ON `vouchers` (`public_id`);
--> statement-breakpoint
CREATE UNIQUE INDEX `vouchers_hash_unique` ON `vouchers` (`hash`);
--> statement-breakpoint
-- The credit of a redemption comes first, and only for a voucher that is open.
CREATE TRIGGER `ledger_redeems_voucher` BEFORE INSERT ON `ledger`
WHEN NEW.`ref` GLOB 'voucher:*'
BEGIN
	SELECT RAISE(ABORT, 'ledger: a ref with voucher: is the credit of an open voucher')
	WHERE NOT EXISTS (
		SELECT 1 FROM `vouchers`
		WHERE `public_id` = substr(NEW.`ref`, 9) AND `amount` = NEW.`amount` AND NEW.`kind` = 'credit'
			AND `redeemed_at` IS NULL AND `revoked_at` IS NULL
			AND (`expires_at` IS NULL OR NEW.`at` < `expires_at`)
	);
END;
--> statement-breakpoint
CREATE TRIGGER `vouchers_start_open` BEFORE INSERT ON `vouchers`
BEGIN
	SELECT RAISE(ABORT, 'vouchers: a new voucher is open')
	WHERE NEW.`revoked_at` IS NOT NULL OR NEW.`redeemed_at` IS NOT NULL;
	SELECT RAISE(ABORT, 'vouchers: that id or code is there already')
	WHERE EXISTS (SELECT 1 FROM `vouchers` WHERE `public_id` = NEW.`public_id`)
		OR EXISTS (SELECT 1 FROM `vouchers` WHERE `hash` = NEW.`hash`)
		OR EXISTS (SELECT 1 FROM `vouchers` WHERE `id` = NEW.`id`);
END;
--> statement-breakpoint
-- A voucher ends once: it is redeemed with its credit in the ledger, or revoked without one. Nothing else changes.
CREATE TRIGGER `vouchers_end_once` BEFORE UPDATE ON `vouchers`
BEGIN
	SELECT RAISE(ABORT, 'vouchers: a voucher ends exactly once')
	WHERE OLD.`redeemed_at` IS NOT NULL OR OLD.`revoked_at` IS NOT NULL;
	SELECT RAISE(ABORT, 'vouchers: what was created is never changed')
	WHERE NEW.`id` <> OLD.`id` OR NEW.`public_id` <> OLD.`public_id` OR NEW.`hash` <> OLD.`hash`
		OR NEW.`prefix` <> OLD.`prefix` OR NEW.`amount` <> OLD.`amount` OR NEW.`note` IS NOT OLD.`note`
		OR NEW.`created_at` <> OLD.`created_at` OR NEW.`expires_at` IS NOT OLD.`expires_at`;
	SELECT RAISE(ABORT, 'vouchers: the ledger has no such credit')
	WHERE NEW.`redeemed_at` IS NOT NULL AND NOT EXISTS (
		SELECT 1 FROM `ledger`
		WHERE `ref` = 'voucher:' || NEW.`public_id` AND `kind` = 'credit' AND `amount` = NEW.`amount`
			AND `account_id` = NEW.`redeemed_by` AND `at` = NEW.`redeemed_at`
	);
	SELECT RAISE(ABORT, 'vouchers: the ledger has its credit')
	WHERE NEW.`revoked_at` IS NOT NULL
		AND EXISTS (SELECT 1 FROM `ledger` WHERE `ref` = 'voucher:' || NEW.`public_id`);
END;
--> statement-breakpoint
CREATE TRIGGER `vouchers_keep` BEFORE DELETE ON `vouchers`
BEGIN
	SELECT RAISE(ABORT, 'vouchers: vouchers are never removed');
END;
--> statement-breakpoint
CREATE TRIGGER `voucher_start_stays` BEFORE UPDATE ON `voucher_start`
BEGIN
	SELECT RAISE(ABORT, 'voucher_start: the row is never changed');
END;
--> statement-breakpoint
CREATE TRIGGER `voucher_start_is_one` BEFORE INSERT ON `voucher_start`
BEGIN
	SELECT RAISE(ABORT, 'voucher_start: there is one row');
END;
--> statement-breakpoint
CREATE TRIGGER `voucher_start_is_kept` BEFORE DELETE ON `voucher_start`
BEGIN
	SELECT RAISE(ABORT, 'voucher_start: there is one row');
END;

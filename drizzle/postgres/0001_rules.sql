-- The rules of the store, so that nobody breaks them by accident, whatever SQL he sends.
-- A condition in WHEN costs almost nothing. A rule about many rows is checked once for each statement, after it. A rule
-- about several tables is checked at the commit, by a constraint trigger that is deferred. Queries about other rows are
-- scalar: PostgreSQL then always reads by the index, and never hashes a whole table.
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE integrity_constraint_violation USING MESSAGE = TG_ARGV[0];
END $$;
--> statement-breakpoint
-- All changes of an account's balance: the rows of the ledger and the charges of the requests that are kept.
-- Both parts have the same types and no condition of their own. Only then PostgreSQL uses the indexes of both for the view's
-- rows in order.
CREATE VIEW history AS
SELECT * FROM (
	SELECT account_id, seq, kind, amount, balance_after, ref, actor, note, at, refund_of FROM ledger
	UNION ALL
	SELECT account_id, ledger_seq, CAST('charge' AS text), -charge, balance_after, 'req:' || public_id,
		CAST(NULL AS text), CAST(NULL AS text), at + coalesce(duration_ms, 0), CAST(NULL AS bigint)
	FROM requests
) AS every_row WHERE seq IS NOT NULL;
--> statement-breakpoint
INSERT INTO retention (id, kept_since) VALUES (1, 0);
--> statement-breakpoint
INSERT INTO changes (id, seq) VALUES (1, 0);
--> statement-breakpoint
INSERT INTO voucher_start (id, ledger_id) VALUES (1, 0);
--> statement-breakpoint

-- Accounts.

CREATE TRIGGER accounts_start_empty BEFORE INSERT ON accounts FOR EACH ROW
WHEN (NEW.balance <> 0 OR NEW.ledger_seq <> 0 OR NEW.reserved <> 0)
EXECUTE FUNCTION refuse('accounts: a new account has an empty ledger');
--> statement-breakpoint
CREATE TRIGGER accounts_stay_themselves BEFORE UPDATE OF id, name ON accounts FOR EACH ROW
WHEN (NEW.id <> OLD.id OR NEW.name <> OLD.name)
EXECUTE FUNCTION refuse('accounts: an account keeps its name and id');
--> statement-breakpoint
CREATE TRIGGER accounts_keep BEFORE DELETE OR TRUNCATE ON accounts FOR EACH STATEMENT
EXECUTE FUNCTION refuse('accounts: accounts are never removed');
--> statement-breakpoint
CREATE TRIGGER accounts_go_on BEFORE UPDATE OF ledger_seq ON accounts FOR EACH ROW
WHEN (NEW.ledger_seq < OLD.ledger_seq)
EXECUTE FUNCTION refuse('accounts: the balance follows the ledger only');
--> statement-breakpoint
-- At the commit: the balance is that of the last row of the account's history, and `reserved` is the sum of its blocks.
-- The account moves before the charges of a group are written. Each charge follows from the one before it (requests_follow).
CREATE FUNCTION accounts_agree() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	follows boolean;
	agrees boolean;
BEGIN
	SELECT
		account.balance = CASE WHEN account.ledger_seq = 0 THEN 0 ELSE coalesce(
			(SELECT balance_after FROM requests WHERE account_id = NEW.id AND ledger_seq = account.ledger_seq),
			(SELECT balance_after FROM ledger WHERE account_id = NEW.id AND seq = account.ledger_seq)
		) END,
		account.reserved = (SELECT coalesce(sum(amount), 0) FROM reserves WHERE account_id = NEW.id AND key_id = 0)
	INTO follows, agrees
	FROM accounts AS account WHERE account.id = NEW.id;
	IF follows IS NOT TRUE THEN
		RAISE integrity_constraint_violation USING MESSAGE = 'accounts: the balance follows the ledger only';
	ELSIF agrees IS NOT TRUE THEN
		RAISE integrity_constraint_violation USING MESSAGE = 'accounts: what is reserved is the sum of the blocks of replicas';
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER accounts_agree AFTER UPDATE OF balance, ledger_seq, reserved ON accounts
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.balance <> OLD.balance OR NEW.ledger_seq <> OLD.ledger_seq OR NEW.reserved <> OLD.reserved)
EXECUTE FUNCTION accounts_agree();
--> statement-breakpoint

-- Keys.

CREATE TRIGGER keys_stay_themselves BEFORE UPDATE OF id ON keys FOR EACH ROW
WHEN (NEW.id <> OLD.id)
EXECUTE FUNCTION refuse('keys: a key keeps its id');
--> statement-breakpoint
CREATE TRIGGER keys_keep BEFORE DELETE OR TRUNCATE ON keys FOR EACH STATEMENT
EXECUTE FUNCTION refuse('keys: keys are never removed');
--> statement-breakpoint

-- The ledger.

CREATE TRIGGER ledger_keeps BEFORE UPDATE ON ledger FOR EACH STATEMENT
EXECUTE FUNCTION refuse('ledger: rows are never changed');
--> statement-breakpoint
CREATE TRIGGER ledger_keeps_all BEFORE DELETE OR TRUNCATE ON ledger FOR EACH STATEMENT
EXECUTE FUNCTION refuse('ledger: rows are never removed');
--> statement-breakpoint
-- A credit, debit or refund follows the account's last row. Two of one account wait for each other.
CREATE FUNCTION ledger_follows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1 FROM accounts
	WHERE id = NEW.account_id AND ledger_seq + 1 = NEW.seq AND balance + NEW.amount = NEW.balance_after
	FOR NO KEY UPDATE;
	IF NOT FOUND OR NEW.seq > 1 AND NOT EXISTS (
		SELECT 1 FROM history WHERE account_id = NEW.account_id AND seq = NEW.seq - 1
	) THEN
		RAISE integrity_constraint_violation USING MESSAGE = 'ledger: the account has no such next row';
	END IF;
	RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER ledger_follows BEFORE INSERT ON ledger FOR EACH ROW
WHEN (NEW.kind <> 'charge')
EXECUTE FUNCTION ledger_follows();
--> statement-breakpoint
-- Never more is given back than was charged, and only while the request is kept: the refund lowers the spending of the key
-- and the totals of the day.
CREATE FUNCTION ledger_refunds_charge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1 FROM requests
	WHERE NEW.kind = 'refund' AND account_id = NEW.account_id AND ledger_seq = NEW.refund_of AND NEW.amount <= charge - (
		SELECT coalesce(sum(amount), 0) FROM ledger
		WHERE account_id = NEW.account_id AND refund_of = NEW.refund_of
	) FOR KEY SHARE;
	IF NOT FOUND THEN
		RAISE integrity_constraint_violation
			USING MESSAGE = 'ledger: a refund gives back what is left of a charge of a request that is kept';
	END IF;
	RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER ledger_refunds_charge BEFORE INSERT ON ledger FOR EACH ROW
WHEN (NEW.kind = 'refund' OR NEW.refund_of IS NOT NULL)
EXECUTE FUNCTION ledger_refunds_charge();
--> statement-breakpoint
-- The credit of a redemption comes first, and only for a voucher that is open.
CREATE FUNCTION ledger_redeems_voucher() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (
		SELECT 1 FROM vouchers
		WHERE public_id = substr(NEW.ref, 9) AND amount = NEW.amount AND NEW.kind = 'credit'
			AND redeemed_at IS NULL AND revoked_at IS NULL AND (expires_at IS NULL OR NEW.at < expires_at)
	) THEN
		RAISE integrity_constraint_violation
			USING MESSAGE = 'ledger: a ref with voucher: is the credit of an open voucher';
	END IF;
	RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER ledger_redeems_voucher BEFORE INSERT ON ledger FOR EACH ROW
WHEN (NEW.ref LIKE 'voucher:%')
EXECUTE FUNCTION ledger_redeems_voucher();
--> statement-breakpoint
-- At the commit: the voucher of a credit is redeemed.
CREATE FUNCTION ledger_ends_voucher() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (
		SELECT 1 FROM vouchers WHERE public_id = substr(NEW.ref, 9) AND redeemed_by = NEW.account_id
	) THEN
		RAISE integrity_constraint_violation USING MESSAGE = 'ledger: the voucher of a credit is redeemed with it';
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER ledger_ends_voucher AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.ref LIKE 'voucher:%')
EXECUTE FUNCTION ledger_ends_voucher();
--> statement-breakpoint
CREATE FUNCTION ledger_moves_balance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE accounts SET balance = NEW.balance_after, ledger_seq = NEW.seq WHERE id = NEW.account_id;
	IF NEW.kind = 'refund' THEN
		UPDATE daily_totals AS total SET refunded = refunded + NEW.amount
		FROM requests AS charged
		WHERE charged.account_id = NEW.account_id AND charged.ledger_seq = NEW.refund_of
			AND total.day = charged.at / 86400000 AND total.account_id = charged.account_id
			AND total.key_id = charged.key_id AND total.model = charged.model
			AND total.provider = coalesce(charged.provider, '') AND total.endpoint = charged.endpoint;
		UPDATE keys AS first SET spent = first.spent - NEW.amount
		FROM requests AS charged JOIN keys AS own ON own.id = charged.key_id
		WHERE charged.account_id = NEW.account_id AND charged.ledger_seq = NEW.refund_of
			AND first.id = coalesce(own.first_key_id, own.id);
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER ledger_moves_balance AFTER INSERT ON ledger FOR EACH ROW
WHEN (NEW.kind <> 'charge')
EXECUTE FUNCTION ledger_moves_balance();
--> statement-breakpoint
-- The charge of a request moves here when the request is folded.
CREATE FUNCTION ledger_folds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (
		SELECT 1 FROM added WHERE kind = 'charge' AND (
			SELECT 1 FROM requests
			WHERE requests.account_id = added.account_id AND requests.ledger_seq = added.seq
				AND -requests.charge = added.amount AND requests.balance_after = added.balance_after
				AND 'req:' || requests.public_id = added.ref AND requests.at < (SELECT kept_since FROM retention)
		) IS NULL
	) THEN
		RAISE integrity_constraint_violation USING MESSAGE = 'ledger: a charge comes from a request that may be folded';
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER ledger_folds AFTER INSERT ON ledger REFERENCING NEW TABLE AS added FOR EACH STATEMENT
EXECUTE FUNCTION ledger_folds();
--> statement-breakpoint
-- At the commit: the request of a folded charge is gone.
CREATE FUNCTION ledger_folds_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT 1 FROM requests WHERE account_id = NEW.account_id AND ledger_seq = NEW.seq) THEN
		RAISE integrity_constraint_violation USING MESSAGE = 'ledger: the request of a charge is removed with it';
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER ledger_folds_once AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.kind = 'charge')
EXECUTE FUNCTION ledger_folds_once();
--> statement-breakpoint

-- Requests.

-- One check instead of three foreign keys, which cost as much as all other rules together. Accounts and keys are never
-- removed, and replicas only when they have ended.
CREATE FUNCTION requests_belong() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (
		SELECT 1 FROM (SELECT DISTINCT account_id, key_id, replica_id FROM written) AS own
		WHERE (SELECT 1 FROM accounts WHERE id = own.account_id) IS NULL
			OR (SELECT 1 FROM keys WHERE id = own.key_id) IS NULL
			OR own.replica_id IS NOT NULL
				AND (SELECT 1 FROM replicas WHERE id = own.replica_id AND ended_at IS NULL) IS NULL
	) THEN
		RAISE foreign_key_violation USING MESSAGE = 'requests: there is no such account, key or live replica';
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER requests_belong AFTER INSERT ON requests REFERENCING NEW TABLE AS written FOR EACH STATEMENT
EXECUTE FUNCTION requests_belong();
--> statement-breakpoint
-- A charge follows from the row before it in the history of its account, which has moved already. The order of the rows in
-- their statement has no meaning.
CREATE FUNCTION requests_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (
		SELECT 1 FROM (
			SELECT account_id, ledger_seq, charge, balance_after, lag(ledger_seq) OVER rising AS last_seq,
				lag(balance_after) OVER rising AS last_balance, lead(ledger_seq) OVER rising IS NULL AS is_last
			FROM written WHERE ledger_seq IS NOT NULL
			WINDOW rising AS (PARTITION BY account_id ORDER BY ledger_seq)
		) AS own
		WHERE balance_after + charge IS DISTINCT FROM CASE
			WHEN last_seq = ledger_seq - 1 THEN last_balance
			WHEN (SELECT 1 FROM ledger WHERE ledger.account_id = own.account_id AND seq = own.ledger_seq) = 1 THEN NULL
			WHEN ledger_seq = 1 THEN 0
			ELSE (
				SELECT history.balance_after FROM history
				WHERE history.account_id = own.account_id AND seq = own.ledger_seq - 1
			)
		END OR is_last AND ledger_seq > (SELECT accounts.ledger_seq FROM accounts WHERE id = own.account_id)
	) THEN
		RAISE integrity_constraint_violation USING MESSAGE = 'requests: the account has no such next charge';
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER requests_follow AFTER INSERT ON requests REFERENCING NEW TABLE AS written FOR EACH STATEMENT
EXECUTE FUNCTION requests_follow();
--> statement-breakpoint
CREATE TRIGGER requests_follow_at_end AFTER UPDATE ON requests REFERENCING NEW TABLE AS written FOR EACH STATEMENT
EXECUTE FUNCTION requests_follow();
--> statement-breakpoint
-- A request leaves the state `running` exactly once, and what was held stays. Model and prices become those of the model
-- that answered.
CREATE TRIGGER requests_end_once BEFORE UPDATE ON requests FOR EACH ROW
WHEN (OLD.status <> 'running' OR NEW.status = 'running')
EXECUTE FUNCTION refuse('requests: a request ends exactly once');
--> statement-breakpoint
CREATE TRIGGER requests_stay_held BEFORE UPDATE ON requests FOR EACH ROW
WHEN (NEW.hold <> OLD.hold OR NEW.account_id <> OLD.account_id OR NEW.key_id <> OLD.key_id OR NEW.id <> OLD.id
	OR NEW.public_id <> OLD.public_id OR NEW.at <> OLD.at OR NEW.endpoint <> OLD.endpoint)
EXECUTE FUNCTION refuse('requests: what was held is never changed');
--> statement-breakpoint
-- A request is removed only if it has ended, retention allows it, and its charge is in the ledger.
CREATE FUNCTION requests_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT 1 FROM removed WHERE status = 'running' OR at >= (SELECT kept_since FROM retention)) THEN
		RAISE integrity_constraint_violation
			USING MESSAGE = 'requests: only ended ones that are older than retention keeps are removed';
	ELSIF EXISTS (
		SELECT 1 FROM removed WHERE ledger_seq IS NOT NULL AND (
			SELECT 1 FROM ledger
			WHERE ledger.account_id = removed.account_id AND seq = removed.ledger_seq AND kind = 'charge'
				AND amount = -removed.charge AND ledger.balance_after = removed.balance_after
				AND ref = 'req:' || removed.public_id
		) IS NULL
	) THEN
		RAISE integrity_constraint_violation USING MESSAGE = 'requests: the charge is not in the ledger';
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER requests_keep AFTER DELETE ON requests REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
EXECUTE FUNCTION requests_keep();
--> statement-breakpoint
CREATE TRIGGER requests_keep_all BEFORE TRUNCATE ON requests FOR EACH STATEMENT
EXECUTE FUNCTION refuse('requests: only ended ones that are older than retention keeps are removed');
--> statement-breakpoint

-- Vouchers. A voucher ends once: it is redeemed with its credit in the ledger, or revoked without one.

CREATE TRIGGER vouchers_start_open BEFORE INSERT ON vouchers FOR EACH ROW
WHEN (NEW.revoked_at IS NOT NULL OR NEW.redeemed_at IS NOT NULL)
EXECUTE FUNCTION refuse('vouchers: a new voucher is open');
--> statement-breakpoint
CREATE TRIGGER vouchers_end_once BEFORE UPDATE ON vouchers FOR EACH ROW
WHEN (OLD.redeemed_at IS NOT NULL OR OLD.revoked_at IS NOT NULL)
EXECUTE FUNCTION refuse('vouchers: a voucher ends exactly once');
--> statement-breakpoint
CREATE TRIGGER vouchers_stay_themselves BEFORE UPDATE ON vouchers FOR EACH ROW
WHEN (NEW.id <> OLD.id OR NEW.public_id <> OLD.public_id OR NEW.hash <> OLD.hash OR NEW.prefix <> OLD.prefix
	OR NEW.amount <> OLD.amount OR NEW.note IS DISTINCT FROM OLD.note OR NEW.created_at <> OLD.created_at
	OR NEW.expires_at IS DISTINCT FROM OLD.expires_at)
EXECUTE FUNCTION refuse('vouchers: what was created is never changed');
--> statement-breakpoint
CREATE FUNCTION vouchers_end_with_credit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.redeemed_at IS NOT NULL AND NOT EXISTS (
		SELECT 1 FROM ledger
		WHERE ref = 'voucher:' || NEW.public_id AND kind = 'credit' AND amount = NEW.amount
			AND account_id = NEW.redeemed_by AND at = NEW.redeemed_at
	) THEN
		RAISE integrity_constraint_violation USING MESSAGE = 'vouchers: the ledger has no such credit';
	ELSIF NEW.revoked_at IS NOT NULL AND EXISTS (SELECT 1 FROM ledger WHERE ref = 'voucher:' || NEW.public_id) THEN
		RAISE integrity_constraint_violation USING MESSAGE = 'vouchers: the ledger has its credit';
	END IF;
	RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER vouchers_end_with_credit BEFORE UPDATE ON vouchers FOR EACH ROW
EXECUTE FUNCTION vouchers_end_with_credit();
--> statement-breakpoint
CREATE TRIGGER vouchers_keep BEFORE DELETE OR TRUNCATE ON vouchers FOR EACH STATEMENT
EXECUTE FUNCTION refuse('vouchers: vouchers are never removed');
--> statement-breakpoint

-- Replicas and what they have reserved.

CREATE TRIGGER replicas_end_once BEFORE UPDATE ON replicas FOR EACH ROW
WHEN (OLD.ended_at IS NOT NULL AND NEW.ended_at IS DISTINCT FROM OLD.ended_at OR NEW.id <> OLD.id)
EXECUTE FUNCTION refuse('replicas: a lease that has ended stays ended');
--> statement-breakpoint
CREATE TRIGGER replicas_live BEFORE DELETE ON replicas FOR EACH ROW
WHEN (OLD.ended_at IS NULL)
EXECUTE FUNCTION refuse('replicas: only ended ones are removed');
--> statement-breakpoint
CREATE TRIGGER replicas_live_all BEFORE TRUNCATE ON replicas FOR EACH STATEMENT
EXECUTE FUNCTION refuse('replicas: only ended ones are removed');
--> statement-breakpoint
-- At the commit: a replica that has ended has no block and no running request. The second condition lets the index of
-- requests that are not done be used.
CREATE FUNCTION replicas_end_empty() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT 1 FROM reserves WHERE replica_id = NEW.id)
		OR EXISTS (SELECT 1 FROM requests WHERE replica_id = NEW.id AND status = 'running' AND status <> 'done') THEN
		RAISE integrity_constraint_violation
			USING MESSAGE = 'replicas: one that ends has no block and no running request';
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER replicas_end_empty AFTER UPDATE OF ended_at ON replicas
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.ended_at IS NOT NULL)
EXECUTE FUNCTION replicas_end_empty();
--> statement-breakpoint
-- `accounts.reserved` changes first, and then the blocks whose sum it is. A replica that has ended gets none.
CREATE FUNCTION reserves_agree() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (
		SELECT 1 FROM touched AS own
		WHERE key_id = 0 AND (SELECT reserved FROM accounts WHERE id = own.account_id) IS DISTINCT FROM (
			SELECT coalesce(sum(amount), 0) FROM reserves WHERE account_id = own.account_id AND key_id = 0
		)
	) THEN
		RAISE integrity_constraint_violation
			USING MESSAGE = 'reserves: their sum is what the account has reserved, which changes first';
	ELSIF TG_OP <> 'DELETE' AND EXISTS (
		SELECT 1 FROM (SELECT DISTINCT replica_id FROM touched) AS own
		WHERE (SELECT ended_at FROM replicas WHERE id = own.replica_id) IS NOT NULL
	) THEN
		RAISE integrity_constraint_violation USING MESSAGE = 'reserves: a replica that has ended has no block';
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER reserves_agree AFTER INSERT ON reserves REFERENCING NEW TABLE AS touched FOR EACH STATEMENT
EXECUTE FUNCTION reserves_agree();
--> statement-breakpoint
CREATE TRIGGER reserves_agree_at_change AFTER UPDATE ON reserves REFERENCING NEW TABLE AS touched FOR EACH STATEMENT
EXECUTE FUNCTION reserves_agree();
--> statement-breakpoint
CREATE TRIGGER reserves_agree_at_end AFTER DELETE ON reserves REFERENCING OLD TABLE AS touched FOR EACH STATEMENT
EXECUTE FUNCTION reserves_agree();
--> statement-breakpoint
CREATE TRIGGER reserves_stay_themselves BEFORE UPDATE ON reserves FOR EACH ROW
WHEN (NEW.replica_id <> OLD.replica_id OR NEW.account_id <> OLD.account_id OR NEW.key_id <> OLD.key_id)
EXECUTE FUNCTION refuse('reserves: a block keeps its owner');
--> statement-breakpoint
CREATE TRIGGER reserves_keep BEFORE TRUNCATE ON reserves FOR EACH STATEMENT
EXECUTE FUNCTION refuse('reserves: the accounts have reserved them');
--> statement-breakpoint

-- Tables of one row, and tables that only grow.

CREATE TRIGGER retention_grows BEFORE UPDATE ON retention FOR EACH ROW
WHEN (NEW.kept_since < OLD.kept_since OR NEW.id <> OLD.id)
EXECUTE FUNCTION refuse('retention: what was folded is not kept again');
--> statement-breakpoint
CREATE TRIGGER retention_is_one BEFORE INSERT OR DELETE OR TRUNCATE ON retention FOR EACH STATEMENT
EXECUTE FUNCTION refuse('retention: there is one row');
--> statement-breakpoint
CREATE TRIGGER changes_grow BEFORE UPDATE ON changes FOR EACH ROW
WHEN (NEW.seq <= OLD.seq OR NEW.id <> OLD.id)
EXECUTE FUNCTION refuse('changes: the number only grows');
--> statement-breakpoint
CREATE TRIGGER changes_is_one BEFORE INSERT OR DELETE OR TRUNCATE ON changes FOR EACH STATEMENT
EXECUTE FUNCTION refuse('changes: there is one row');
--> statement-breakpoint
CREATE TRIGGER voucher_start_stays BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON voucher_start FOR EACH STATEMENT
EXECUTE FUNCTION refuse('voucher_start: there is one row, which is never changed');
--> statement-breakpoint
-- The program makes this table before its first migration.
CREATE TRIGGER schema_version_grows BEFORE UPDATE ON schema_version FOR EACH ROW
WHEN (NEW.applied < OLD.applied OR NEW.oldest < OLD.oldest)
EXECUTE FUNCTION refuse('schema_version: the numbers only grow');
--> statement-breakpoint
CREATE TRIGGER schema_version_is_one BEFORE INSERT OR DELETE OR TRUNCATE ON schema_version FOR EACH STATEMENT
EXECUTE FUNCTION refuse('schema_version: there is one row');
--> statement-breakpoint
CREATE TRIGGER admin_log_keeps BEFORE UPDATE ON admin_log FOR EACH STATEMENT
EXECUTE FUNCTION refuse('admin_log: rows are never changed');
--> statement-breakpoint
CREATE TRIGGER admin_log_keeps_all BEFORE DELETE OR TRUNCATE ON admin_log FOR EACH STATEMENT
EXECUTE FUNCTION refuse('admin_log: rows are never removed');
--> statement-breakpoint
CREATE TRIGGER daily_totals_keep BEFORE DELETE OR TRUNCATE ON daily_totals FOR EACH STATEMENT
EXECUTE FUNCTION refuse('daily_totals: totals are never removed');
--> statement-breakpoint

-- Changes that replicas must hear of. They are counted at the commit, once for each transaction: everybody waits for the
-- row of the counter, so it is the last lock that a transaction takes.

CREATE FUNCTION tell_change(account_id bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE changes SET seq = seq + 1 WHERE xmin <> CAST(pg_current_xact_id() AS xid);
	PERFORM pg_notify('tollgate_changed', CAST(account_id AS text));
END $$;
--> statement-breakpoint
CREATE FUNCTION accounts_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM tell_change(NEW.id);
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER accounts_added AFTER INSERT ON accounts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
EXECUTE FUNCTION accounts_changed();
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER accounts_changed AFTER UPDATE OF overdraft, disabled ON accounts
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.overdraft <> OLD.overdraft OR NEW.disabled <> OLD.disabled)
EXECUTE FUNCTION accounts_changed();
--> statement-breakpoint
CREATE FUNCTION keys_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'UPDATE' AND NEW.account_id <> OLD.account_id THEN
		PERFORM tell_change(OLD.account_id);
	END IF;
	PERFORM tell_change(NEW.account_id);
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER keys_added AFTER INSERT ON keys DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
EXECUTE FUNCTION keys_changed();
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER keys_changed AFTER UPDATE OF public_id, account_id, hash, expires_at, revoked_at,
	requests_per_minute, tokens_per_minute, concurrent_requests, models, budget, first_key_id ON keys
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN ((NEW.public_id, NEW.account_id, NEW.hash, NEW.expires_at, NEW.revoked_at, NEW.requests_per_minute,
	NEW.tokens_per_minute, NEW.concurrent_requests, NEW.models, NEW.budget, NEW.first_key_id)
	IS DISTINCT FROM (OLD.public_id, OLD.account_id, OLD.hash, OLD.expires_at, OLD.revoked_at, OLD.requests_per_minute,
	OLD.tokens_per_minute, OLD.concurrent_requests, OLD.models, OLD.budget, OLD.first_key_id))
EXECUTE FUNCTION keys_changed();
--> statement-breakpoint
CREATE FUNCTION ledger_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM tell_change(NEW.account_id);
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE CONSTRAINT TRIGGER ledger_changed AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.kind <> 'charge')
EXECUTE FUNCTION ledger_changed();

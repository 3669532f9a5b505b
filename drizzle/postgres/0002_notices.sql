CREATE TABLE "notices" (
	"type" text COLLATE "C" NOT NULL,
	"subject" text COLLATE "C" NOT NULL,
	"open" bigint NOT NULL,
	"told" bigint NOT NULL,
	"claimed_at" bigint NOT NULL,
	CONSTRAINT "notices_type_subject_pk" PRIMARY KEY("type","subject")
);
--> statement-breakpoint
ALTER TABLE "accounts" ADD COLUMN "low" bigint;--> statement-breakpoint
ALTER TABLE "accounts" ADD COLUMN "notify_url" text COLLATE "C";
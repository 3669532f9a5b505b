import { bothPages } from "./bothPages.ts";
import { inEnglish, inRussian, type Tree } from "./words.ts";

/** Words of the operator's console about accounts, keys and vouchers, and of their forms. */
export const consoleAccounts = {
  once: {
    close: ["Close", "Закрыть"],
    closeAnyway: ["Close without a copy", "Закрыть без копии"],
    notCopied: [
      "You have not copied it yet. After this it cannot be shown again.",
      "Вы ещё ничего не скопировали. Больше это показать нельзя.",
    ],
  },
  forms: {
    ref: ["Ref", "Ref"],
    refHint: [
      "The same ref counts once, however often the change is sent.",
      "Изменение с тем же ref засчитывается один раз, сколько его ни отправляй.",
    ],
    note: ["Note", "Примечание"],
    noteHint: [
      "It stands in the ledger. The holders of the account's keys do not see it.",
      "Остаётся в журнале. Владельцы ключей счёта его не видят.",
    ],
    unknown: [
      "The change may have been made all the same. Sending it again with the same ref does not make it twice.",
      "Изменение всё же могло быть сделано. Повтор с тем же ref не сделает его второй раз.",
    ],
    unknownWithoutRef: [
      "The change may have been made all the same. Look at the list before you send it again.",
      "Изменение всё же могло быть сделано. Прежде чем повторять, посмотрите на список.",
    ],
    appliedBefore: [
      "Nothing changed: this very change was made before with this ref. For another one, take another ref.",
      "Ничего не изменилось: точно такое же изменение с этим ref уже сделано. Для нового возьмите другой ref.",
    ],
  },
  accounts: {
    create: ["New account", "Новый счёт"],
    confirmCreate: ["Create the account", "Создать счёт"],
    created: [(name: string) => `Account ${name} created`, (name: string) => `Счёт ${name} создан`],
    search: ["Search accounts", "Поиск счетов"],
    none: ["No accounts yet", "Счетов пока нет"],
    noneHint: [
      "Create one here, or together with its first key.",
      "Создайте счёт здесь или вместе с его первым ключом.",
    ],
    name: ["Account", "Счёт"],
    nameHint: [
      "1 to 64 letters, digits, dots, hyphens, underscores and @. The name cannot be changed later.",
      "От 1 до 64 латинских букв, цифр, точек, дефисов, подчёркиваний и @. Потом имя не изменить.",
    ],
    state: ["State", "Состояние"],
    active: ["active", "работает"],
    disabled: ["disabled", "отключён"],
    available: ["Available", "Доступно"],
    balance: ["Balance", "Баланс"],
    held: ["Held", "Удержано"],
    plan: ["Price plan", "Тарифный план"],
    planHint: [
      "The id of a plan of the config, or none: the prices of the models. It counts from the next request on.",
      "Имя плана из конфигурации или none: цены моделей. Действует со следующего запроса.",
    ],
    overdraft: ["Overdraft", "Овердрафт"],
    overdraftHint: [
      "How far the balance may fall below zero. 0 is the default.",
      "Насколько баланс может уйти ниже нуля. Обычно 0.",
    ],
    keys: ["Keys", "Ключи"],
  },
  account: {
    since: ["since", "с"],
    amount: ["Amount", "Сумма"],
    availableNote: ["for new requests", "для новых запросов"],
    charged: ["Charged", "Списано"],
    chargedIn: [
      (span: "24h" | "7d" | "30d" | "90d") => `Charged in ${bothPages.spans[span][0]}`,
      (span: "24h" | "7d" | "30d" | "90d") => `Списано за ${bothPages.spans[span][1]}`,
    ],
    failed: [
      (count: number) => `${bothPages.requests[0](count)} failed`,
      (count: number) => `с ошибкой: ${bothPages.requests[1](count)}`,
    ],
    use: ["Spend by model", "Расход по моделям"],
    tabs: {
      label: ["Of this account", "Об этом счёте"],
      ledger: ["Ledger", "Журнал"],
      keys: ["Keys", "Ключи"],
      requests: ["Requests", "Запросы"],
    },
    actions: {
      credit: ["Credit", "Зачислить"],
      debit: ["Debit", "Снять"],
      overdraft: ["Overdraft", "Овердрафт"],
      plan: ["Price plan", "Тарифный план"],
      disable: ["Disable", "Отключить"],
      enable: ["Enable", "Включить"],
    },
    credit: {
      title: [(name: string) => `Credit ${name}`, (name: string) => `Зачислить на счёт ${name}`],
      confirm: ["Credit", "Зачислить"],
      done: [
        (amount: string, name: string) => `${amount} credited to ${name}`,
        (amount: string, name: string) => `${amount} зачислено на счёт ${name}`,
      ],
    },
    debit: {
      title: [(name: string) => `Debit ${name}`, (name: string) => `Снять со счёта ${name}`],
      confirm: ["Debit", "Снять"],
      done: [
        (amount: string, name: string) => `${amount} debited from ${name}`,
        (amount: string, name: string) => `${amount} снято со счёта ${name}`,
      ],
    },
    changeOverdraft: {
      title: [
        (name: string) => `Overdraft of ${name}`,
        (name: string) => `Овердрафт счёта ${name}`,
      ],
      confirm: ["Set the overdraft", "Задать овердрафт"],
      done: [
        (amount: string, name: string) => `The overdraft of ${name} is ${amount}`,
        (amount: string, name: string) => `Овердрафт счёта ${name}: ${amount}`,
      ],
    },
    changePlan: {
      title: [
        (name: string) => `Price plan of ${name}`,
        (name: string) => `Тарифный план счёта ${name}`,
      ],
      confirm: ["Set the plan", "Задать план"],
      done: [
        (plan: string, name: string) => `The price plan of ${name} is ${plan}`,
        (plan: string, name: string) => `Тарифный план счёта ${name}: ${plan}`,
      ],
    },
    disable: {
      title: [(name: string) => `Disable ${name}`, (name: string) => `Отключить счёт ${name}`],
      confirm: ["Disable the account", "Отключить счёт"],
      meaning: [
        "From the next request on, no key of the account works. Open requests go on.",
        "Со следующего запроса ни один ключ счёта не работает. Открытые запросы продолжаются.",
      ],
      done: [(name: string) => `${name} is disabled`, (name: string) => `Счёт ${name} отключён`],
    },
    enable: {
      title: [(name: string) => `Enable ${name}`, (name: string) => `Включить счёт ${name}`],
      confirm: ["Enable the account", "Включить счёт"],
      meaning: ["The keys of the account work again at once.", "Ключи счёта сразу снова работают."],
      done: [(name: string) => `${name} is enabled`, (name: string) => `Счёт ${name} включён`],
    },
  },
  ledger: {
    title: ["Ledger", "Журнал"],
    intro: [
      "Every change of the balance, newest first. Entries are never changed.",
      "Все изменения баланса, сначала новые. Записи никогда не меняются.",
    ],
    none: ["No entries yet", "Записей пока нет"],
    noneHint: [
      "The first credit makes the first entry.",
      "Первая запись появится с первым зачислением.",
    ],
    time: ["Time", "Время"],
    number: ["Number", "Номер"],
    kind: ["Kind", "Вид"],
    kinds: {
      credit: ["credit", "зачисление"],
      debit: ["debit", "снятие"],
      charge: ["charge", "списание"],
      refund: ["refund", "возврат"],
    },
    amount: ["Amount", "Сумма"],
    balance: ["Balance after", "Баланс после"],
    request: ["Request", "Запрос"],
    ref: ["Ref", "Ref"],
    note: ["Note", "Примечание"],
  },
  keys: {
    create: ["New key", "Новый ключ"],
    confirmCreate: ["Create the key", "Создать ключ"],
    created: ["The new key", "Новый ключ"],
    shownOnce: [
      "Copy it now. Only its hash is stored, so it cannot be shown again. It works at once.",
      "Скопируйте его сейчас. Хранится только хеш, поэтому показать ключ ещё раз нельзя. Он уже работает.",
    ],
    forAccount: [
      (name: string) => `It belongs to the account ${name}.`,
      (name: string) => `Ключ принадлежит счёту ${name}.`,
    ],
    forNewAccount: [
      (name: string) => `The account ${name} was created with it.`,
      (name: string) => `Вместе с ключом создан счёт ${name}.`,
    ],
    idIs: ["Its id is", "Его номер:"],
    search: ["Search keys", "Поиск ключей"],
    none: ["No keys yet", "Ключей пока нет"],
    unknown: ["There is no key with this id.", "Ключа с таким номером нет."],
    key: ["Key", "Ключ"],
    id: ["Id", "Номер"],
    prefix: ["First characters", "Первые символы"],
    account: ["Account", "Счёт"],
    accountHint: [
      "An account that does not exist is created.",
      "Если такого счёта нет, он будет создан.",
    ],
    state: ["State", "Состояние"],
    states: {
      active: ["active", "работает"],
      expired: ["expired", "истёк"],
      revoked: ["revoked", "отозван"],
      damaged: ["damaged", "повреждён"],
      "account disabled": ["account disabled", "счёт отключён"],
    },
    replaced: ["replaced", "заменён"],
    budget: ["Budget", "Бюджет"],
    noBudget: ["none", "нет"],
    spent: ["Spent", "Потрачено"],
    lastUsed: ["Last used", "Последний запрос"],
    firstAddress: ["First address", "Первый адрес"],
    lastAddress: ["Last address", "Последний адрес"],
    expires: ["Expires", "Истекает"],
    never: ["never", "никогда"],
    createdAt: ["Created", "Создан"],
    revokedAt: ["Revoked", "Отозван"],
    models: ["Models", "Модели"],
    allModels: ["all", "все"],
    asConfigured: ["as in the config", "как в конфигурации"],
    noLimit: ["no limit", "без ограничения"],
    details: ["Settings and use", "Настройки и использование"],
    actions: {
      settings: ["Settings", "Настройки"],
      rotate: ["Rotate", "Заменить"],
      revoke: ["Revoke", "Отозвать"],
    },
    settings: {
      title: ["Settings of the key", "Настройки ключа"],
      intro: [
        "They hold from the next request on. An empty field removes the setting.",
        "Действуют со следующего запроса. Пустое поле убирает настройку.",
      ],
      confirm: ["Save", "Сохранить"],
      done: ["The settings are saved", "Настройки сохранены"],
      label: ["Label", "Название"],
      budget: ["Budget", "Бюджет"],
      expires: ["Expires", "Истекает"],
      expiresHint: [
        "A duration such as 90d or 12h, or a date such as 2027-01-31.",
        "Срок, например 90d или 12h, или дата, например 2027-01-31.",
      ],
      models: ["Models", "Модели"],
      modelsHint: [
        "Separated by commas. * stands for any text, such as gpt-*. Empty: all.",
        "Через запятую. * заменяет любой текст, например gpt-*. Пусто: все.",
      ],
      rpm: ["Requests a minute", "Запросов в минуту"],
      tpm: ["Tokens a minute", "Токенов в минуту"],
      concurrent: ["Requests at once", "Запросов сразу"],
      limitsHint: [
        "An empty limit is that of the config. 0 is no limit.",
        "Пустое ограничение — как в конфигурации. 0 — без ограничения.",
      ],
    },
    rotate: {
      title: ["Rotate the key", "Заменить ключ"],
      confirm: ["Make the new key", "Создать новый ключ"],
      meaning: [
        "A new key takes over settings, budget and spending. The old one works for a while longer.",
        "Новый ключ получает настройки, бюджет и расход. Старый какое-то время ещё работает.",
      ],
      grace: ["The old key works for", "Старый ключ работает ещё"],
      graceHint: [
        "A duration from 0s to 365d. Without one: 24h.",
        "Срок от 0s до 365d. Если не указан: 24h.",
      ],
    },
    revoke: {
      title: ["Revoke the key", "Отозвать ключ"],
      confirm: ["Revoke the key", "Отозвать ключ"],
      meaning: [
        "From the next request on, it does not work. This cannot be undone.",
        "Со следующего запроса он не работает. Отменить это нельзя.",
      ],
      done: ["The key is revoked", "Ключ отозван"],
      doneBefore: [
        "The key was revoked before. Nothing changed.",
        "Ключ уже был отозван. Ничего не изменилось.",
      ],
    },
  },
  vouchers: {
    intro: [
      "Codes that a key holder redeems for a credit, once each.",
      "Коды, которые владелец ключа гасит ради зачисления, каждый один раз.",
    ],
    create: ["New vouchers", "Новые ваучеры"],
    confirmCreate: ["Create the vouchers", "Создать ваучеры"],
    created: [
      (count: number) => inEnglish(count, { one: "new voucher", other: "new vouchers" }),
      (count: number) =>
        inRussian(count, {
          one: "новый ваучер",
          few: "новых ваучера",
          many: "новых ваучеров",
          other: "нового ваучера",
        }),
    ],
    codes: [
      (count: number) => inEnglish(count, { one: "code", other: "codes" }),
      (count: number) =>
        inRussian(count, { one: "код", few: "кода", many: "кодов", other: "кода" }),
    ],
    shownOnce: [
      "Copy the codes now. Only their hashes are stored, so they cannot be shown again.",
      "Скопируйте коды сейчас. Хранятся только их хеши, поэтому показать коды ещё раз нельзя.",
    ],
    copyCsv: ["Copy as CSV", "Скопировать в CSV"],
    search: ["Search, or a whole code", "Поиск или целый код"],
    none: ["No vouchers yet", "Ваучеров пока нет"],
    noneHint: [
      "Create some, and sell or give away their codes.",
      "Создайте их, а коды продайте или подарите.",
    ],
    count: ["How many", "Сколько"],
    countHint: ["1 to 1,000.", "От 1 до 1000."],
    amountHint: ["Of each voucher.", "Каждого ваучера."],
    noteHint: ["It stands in the list of vouchers.", "Остаётся в списке ваучеров."],
    worth: ["Worth of the new codes", "Стоимость новых кодов"],
    code: ["Code", "Код"],
    id: ["Id", "Номер"],
    amount: ["Amount", "Сумма"],
    state: ["State", "Состояние"],
    states: {
      open: ["open", "не погашен"],
      redeemed: ["redeemed", "погашен"],
      revoked: ["revoked", "отозван"],
      expired: ["expired", "истёк"],
    },
    redeemedBy: ["Redeemed by", "Кем погашен"],
    redeemedAt: ["Redeemed", "Погашен"],
    createdAt: ["Created", "Создан"],
    expires: ["Expires", "Истекает"],
    note: ["Note", "Примечание"],
    revoke: {
      head: ["Action", "Действие"],
      action: ["Revoke", "Отозвать"],
      one: [
        (prefix: string) => `Revoke the voucher ${prefix}…`,
        (prefix: string) => `Отозвать ваучер ${prefix}…`,
      ],
      title: ["Revoke the voucher", "Отозвать ваучер"],
      confirm: ["Revoke the voucher", "Отозвать ваучер"],
      meaning: [
        "Nobody can redeem it any more. This cannot be undone.",
        "Погасить его больше нельзя. Отменить это невозможно.",
      ],
      done: ["The voucher is revoked", "Ваучер отозван"],
      doneBefore: [
        "The voucher was revoked before. Nothing changed.",
        "Ваучер уже был отозван. Ничего не изменилось.",
      ],
    },
  },
} as const satisfies Tree;

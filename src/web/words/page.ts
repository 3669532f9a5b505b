import { bothPages } from "./bothPages.ts";
import { inEnglish, inRussian, type Tree } from "./words.ts";

/** Words of the key holder's page. */
export const page = {
  title: ["Your key", "Ваш ключ"],
  key: ["Key", "Ключ"],
  leave: ["Sign out", "Выйти"],
  foot: [
    (zone: string) => `Times in ${zone}. Days of reports in UTC.`,
    (zone: string) => `Время: ${zone}. Дни в отчётах по UTC.`,
  ],
  views: {
    "": ["Overview", "Обзор"],
    spend: ["Spend", "Расходы"],
    requests: ["Requests", "Запросы"],
    models: ["Models", "Модели"],
    try: ["Try it", "Попробовать"],
    connect: ["Connect", "Подключение"],
  },
  login: {
    title: ["Open your account", "Откройте свой счёт"],
    intro: [
      "Paste your API key to see what is left and what it was spent on.",
      "Вставьте ключ API, чтобы увидеть, сколько осталось и на что потрачено.",
    ],
    key: ["API key", "Ключ API"],
    placeholder: ["sk-tg-…", "sk-tg-…"],
    show: ["Show the key", "Показать ключ"],
    hide: ["Hide the key", "Скрыть ключ"],
    keep: ["Stay on this tab", "Остаться на этой вкладке"],
    keepHint: [
      "A reload does not ask for the key again. It is forgotten when the tab is closed.",
      "После перезагрузки ключ не понадобится снова. Вкладка закрыта — ключ забыт.",
    ],
    open: ["Open", "Открыть"],
    opening: ["Opening…", "Открываем…"],
    empty: ["Paste the key first.", "Сначала вставьте ключ."],
    wrong: ["The gateway does not accept this key.", "Шлюз не принимает этот ключ."],
    wrongWhy: [
      "It is not complete, has expired or was revoked, or its account is disabled. Compare it with the key that you were given.",
      "Он неполон, истёк или отозван, либо его счёт отключён. Сверьте его с ключом, который вам выдали.",
    ],
    failed: ["The account could not be opened.", "Не удалось открыть счёт."],
    refused: ["The gateway no longer accepts the key.", "Шлюз больше не принимает ключ."],
    refusedWhy: [
      "It has expired or was revoked, or its account is disabled. Ask the operator for a new one.",
      "Он истёк или отозван, либо его счёт отключён. Попросите у оператора новый.",
    ],
    privacy: [
      "The key is sent to this gateway alone, in the header of each call. It is not stored, unless you stay on this tab.",
      "Ключ передаётся только этому шлюзу, в заголовке каждого вызова. Он нигде не хранится, если вы не остаётесь на вкладке.",
    ],
  },
  overview: {
    balance: ["Balance", "Баланс"],
    balanceNote: ["for all keys", "на все ключи"],
    available: ["Available", "Доступно"],
    availableNote: ["for new requests", "для новых запросов"],
    held: ["Held", "Удержано"],
    heldNote: ["for open requests", "под открытые запросы"],
    lasts: [
      (days: number) =>
        days > 999
          ? "lasts for years"
          : days < 1
            ? "lasts less than a day"
            : `lasts about ${inEnglish(days, { one: "day", other: "days" })}`,
      (days: number) =>
        days > 999
          ? "хватит на годы"
          : days < 1
            ? "хватит меньше чем на день"
            : `хватит примерно на ${inRussian(days, { one: "день", few: "дня", many: "дней", other: "дня" })}`,
    ],
    spent: [
      (span: "24h" | "7d" | "30d" | "90d") => `Spent in ${bothPages.spans[span][0]}`,
      (span: "24h" | "7d" | "30d" | "90d") => `Потрачено за ${bothPages.spans[span][1]}`,
    ],
    spentNote: ["before refunds", "без учёта возвратов"],
    thisKey: ["This key", "Этот ключ"],
    budget: ["Budget of the key", "Бюджет ключа"],
    noBudget: ["none", "нет"],
    spentByKey: ["Spent by this key", "Потрачено ключом"],
    limits: {
      requests: ["Requests a minute", "Запросов в минуту"],
      tokens: ["Tokens a minute", "Токенов в минуту"],
      concurrent: ["Requests at once", "Запросов сразу"],
    },
    left: [(count: string) => `${count} left`, (count: string) => `осталось ${count}`],
    noLimit: ["no limit", "без ограничения"],
    expires: ["Expires", "Истекает"],
    never: ["never", "никогда"],
    topUp: ["Top up", "Пополнение"],
    contact: ["Buy more", "Купить ещё"],
    low: ["The money is running low", "Деньги заканчиваются"],
    lowWhy: [
      (days: number) =>
        days < 1
          ? "At the pace of this span it lasts less than a day."
          : `At the pace of this span it lasts about ${inEnglish(days, { one: "day", other: "days" })}.`,
      (days: number) =>
        days < 1
          ? "При расходах этого периода хватит меньше чем на день."
          : `При расходах этого периода хватит примерно на ${inRussian(days, { one: "день", few: "дня", many: "дней", other: "дня" })}.`,
    ],
    empty: ["No money is left", "Деньги закончились"],
    emptyWhy: [
      "Requests that cost money are refused until the account is topped up.",
      "Пока счёт не пополнен, платные запросы отклоняются.",
    ],
    budgetSpent: ["The budget of this key is spent", "Бюджет этого ключа исчерпан"],
    budgetSpentWhy: [
      "Ask the operator for a larger budget, or use another key.",
      "Попросите оператора увеличить бюджет или возьмите другой ключ.",
    ],
    expiring: ["This key expires soon", "Ключ скоро истечёт"],
    recent: ["Last requests", "Последние запросы"],
    allRequests: ["All requests", "Все запросы"],
  },
  voucher: {
    code: ["Voucher code", "Код ваучера"],
    addedTo: ["Adds to the account", "Пополнит счёт"],
    placeholder: ["XXXXX-XXXXX-XXXXX-…", "XXXXX-XXXXX-XXXXX-…"],
    redeem: ["Redeem", "Погасить"],
    applied: [(amount: string) => `${amount} added`, (amount: string) => `Зачислено ${amount}`],
    appliedBefore: [
      "This account has already redeemed the voucher. Nothing changed.",
      "Этот счёт уже погасил ваучер. Ничего не изменилось.",
    ],
    balance: [(amount: string) => `Balance: ${amount}`, (amount: string) => `Баланс: ${amount}`],
  },
  spend: {
    intro: ["What all keys of the account used.", "Что использовали все ключи счёта."],
    captions: {
      roubles: ["Spend by model", "Расходы по моделям"],
      tokens: ["Tokens by model", "Токены по моделям"],
      requests: ["Requests by model", "Запросы по моделям"],
    },
    unit: ["Unit", "Единица"],
    units: {
      roubles: ["Roubles", "Рубли"],
      tokens: ["Tokens", "Токены"],
      requests: ["Requests", "Запросы"],
    },
    byDay: ["By day", "По дням"],
    byHour: ["By hour", "По часам"],
    byModel: ["By model", "По моделям"],
    model: ["Model", "Модель"],
    requests: ["Requests", "Запросы"],
    failed: ["Failed", "Ошибки"],
    tokens: ["Tokens", "Токены"],
    prompt: ["Prompt", "Промпт"],
    cached: ["of it cached", "из них из кэша"],
    completion: ["Answer", "Ответ"],
    cost: ["Cost", "Стоимость"],
    refunded: ["Refunded", "Возвращено"],
    copyAll: ["Copy all as CSV", "Скопировать всё в CSV"],
  },
  requests: {
    intro: [
      "Requests of all keys of the account, newest first. Costs are exact.",
      "Запросы всех ключей счёта, сначала новые. Стоимость точная.",
    ],
    model: ["Model", "Модель"],
    status: ["Status", "Итог"],
    anyModel: ["All models", "Все модели"],
    anyStatus: ["Any status", "Любой итог"],
    showNew: ["Show new requests", "Показать новые запросы"],
    time: ["Time", "Время"],
    id: ["Request", "Запрос"],
    prompt: ["Prompt", "Промпт"],
    cached: ["Cached", "Из кэша"],
    completion: ["Answer", "Ответ"],
    firstByte: ["First byte", "Первый байт"],
    duration: ["Duration", "Время ответа"],
    cost: ["Cost", "Стоимость"],
    none: ["No requests yet", "Запросов пока нет"],
    tryOne: ["Try a model", "Попробовать модель"],
  },
  receipt: {
    title: ["Receipt", "Квитанция"],
    copyId: ["Copy the id", "Скопировать номер"],
    cost: ["Cost", "Стоимость"],
    status: ["How it ended", "Чем закончился"],
    firstByte: ["First byte", "Первый байт"],
    duration: ["Duration", "Время ответа"],
    estimated: ["The counts are an estimate", "Количество оценено"],
    estimatedWhy: [
      "The provider did not report usable counts, so the gateway estimated them.",
      "Провайдер не сообщил пригодных чисел, поэтому шлюз оценил их сам.",
    ],
    details: ["Request", "Запрос"],
    model: ["Model", "Модель"],
    endpoint: ["Call", "Вызов"],
    endpoints: {
      chat: ["chat completions", "chat completions"],
      responses: ["responses", "responses"],
      messages: ["messages", "messages"],
      embeddings: ["embeddings", "embeddings"],
    },
    form: ["Answer", "Ответ"],
    streamed: ["streamed", "потоком"],
    whole: ["in one piece", "целиком"],
    key: ["Key", "Ключ"],
    promptTokens: ["Prompt tokens", "Токены промпта"],
    completionTokens: ["Answer tokens", "Токены ответа"],
    attempts: ["Attempts", "Попытки"],
    attemptsNote: ["A failed attempt costs nothing.", "Неудачная попытка ничего не стоит."],
    attempt: ["No.", "№"],
    outcome: ["Outcome", "Исход"],
    outcomes: {
      ok: ["answered", "ответ получен"],
      refused: ["refused as invalid", "отклонён как неверный"],
      unavailable: ["not available", "нет связи"],
      timeout: ["took too long", "слишком долго"],
      failed: ["answer not usable", "непригодный ответ"],
      cancelled: ["client disconnected", "клиент отключился"],
      internal_error: ["fault of the gateway", "сбой шлюза"],
    },
    noAttempts: ["No attempt has ended yet", "Ни одна попытка ещё не закончилась"],
  },
  models: {
    intro: [
      "Models that this key may use. Prices for a million tokens. A click on an id copies it.",
      "Модели, доступные этому ключу. Цены за миллион токенов. Нажмите на имя, чтобы скопировать его.",
    ],
    search: ["Search models", "Поиск моделей"],
    found: [
      (count: number) => inEnglish(count, { one: "model found", other: "models found" }),
      (count: number) =>
        inRussian(count, {
          one: "модель найдена",
          few: "модели найдены",
          many: "моделей найдено",
          other: "модели найдено",
        }),
    ],
    none: ["This key may use no model", "Этому ключу не доступна ни одна модель"],
    model: ["Model", "Модель"],
    owner: ["Owner", "Владелец"],
    input: ["Prompt, 1M", "Промпт, 1 млн"],
    output: ["Answer, 1M", "Ответ, 1 млн"],
    further: ["Other prices", "Другие цены"],
    nextPrices: [
      (date: string, prices: string) => `from ${date}: ${prices}`,
      (date: string, prices: string) => `с ${date}: ${prices}`,
    ],
    context: ["Context", "Контекст"],
    most: ["Longest answer", "Длина ответа"],
    endpoints: ["Calls", "Вызовы"],
    tryIt: ["Chat", "Чат"],
    tryModel: [(model: string) => `Try it: ${model}`, (model: string) => `Попробовать: ${model}`],
    copied: [(model: string) => `Copied ${model}`, (model: string) => `Скопировано: ${model}`],
  },
  tryIt: {
    intro: [
      "A chat with any model that this key may use. Each answer costs what a program would pay.",
      "Чат с любой моделью этого ключа. Ответ стоит столько же, сколько для программы.",
    ],
    noModels: ["This key may use no chat model", "Этому ключу не доступна ни одна модель для чата"],
    empty: ["Ask something", "Спросите что-нибудь"],
    emptyHint: [
      "The conversation stays in the memory of this page. A reload forgets it.",
      "Разговор остаётся в памяти страницы. После перезагрузки он забыт.",
    ],
    conversation: ["Conversation", "Разговор"],
    you: ["You", "Вы"],
    message: ["Message", "Сообщение"],
    keys: [
      "Enter sends. Shift + Enter starts a new line.",
      "Enter отправляет. Shift + Enter начинает новую строку.",
    ],
    model: ["Model", "Модель"],
    prices: [
      (input: string, output: string) => `${input} prompt, ${output} answer per 1M tokens`,
      (input: string, output: string) => `Промпт ${input}, ответ ${output} за 1 млн токенов`,
    ],
    send: ["Send", "Отправить"],
    stop: ["Stop", "Остановить"],
    clear: ["New conversation", "Новый разговор"],
    waiting: ["Answering…", "Отвечает…"],
    reasoning: ["Reasoning", "Рассуждения"],
    noText: ["The answer has no text.", "В ответе нет текста."],
    stopped: [
      "Stopped. What the provider had sent is charged.",
      "Остановлено. Списано за то, что провайдер успел прислать.",
    ],
    failed: ["The model did not answer", "Модель не ответила"],
    notCharged: ["Nothing was charged.", "Ничего не списано."],
    pending: ["The charge follows…", "Списание уточняется…"],
    unknown: ["The charge is not known yet.", "Списание пока не известно."],
    estimated: ["estimated", "оценка"],
    promptTokens: ["prompt", "промпт"],
    completionTokens: ["answer", "ответ"],
    cached: ["cached", "из кэша"],
    copyAnswer: ["Copy the answer", "Скопировать ответ"],
    answered: [
      (cost: string) => `The answer is complete. It cost ${cost}.`,
      (cost: string) => `Ответ получен. Он стоил ${cost}.`,
    ],
  },
  snippets: {
    intro: [
      "Code that calls this gateway. Its address is filled in.",
      "Код для вызова этого шлюза. Адрес уже подставлен.",
    ],
    model: ["Model in the code", "Модель в коде"],
    keyStays: [
      "Your key is not in the code. The code reads it from the variable TOLLGATE_KEY, which you set yourself.",
      "Вашего ключа в коде нет. Код берёт его из переменной TOLLGATE_KEY, которую задаёте вы сами.",
    ],
    titles: {
      environment: ["Environment variables", "Переменные окружения"],
      curl: ["curl", "curl"],
      python: ["Python", "Python"],
      typescript: ["TypeScript", "TypeScript"],
    },
    notes: {
      environment: [
        "For programs that read the usual variables, such as Claude Code.",
        "Для программ, которые читают обычные переменные, например Claude Code.",
      ],
      curl: ["A streamed answer.", "Ответ потоком."],
      python: ["pip install openai", "pip install openai"],
      typescript: ["npm install openai", "npm install openai"],
    },
  },
  failures: {
    key: ["The gateway does not accept the key.", "Шлюз не принимает ключ."],
    rate: ["Too many calls in a short time.", "Слишком много вызовов за короткое время."],
    insufficientBalance: [
      (required: string, available: string) =>
        `There is not enough money. The request can cost up to ${required}, and ${available} is available.`,
      (required: string, available: string) =>
        `Не хватает денег. Запрос может стоить до ${required}, а доступно ${available}.`,
    ],
    balanceHeld: [
      (required: string, available: string) =>
        `Open requests hold the money. This one can cost up to ${required}, and ${available} is available.`,
      (required: string, available: string) =>
        `Деньги удержаны под открытые запросы. Этот может стоить до ${required}, а доступно ${available}.`,
    ],
    byMessage: {
      "model not found": [
        "The model does not exist, or this key may not use it.",
        "Такой модели нет, или этому ключу она не разрешена.",
      ],
      "request not found": [
        "The account has no record of this request. It is from another account, too old, or was refused.",
        "У счёта нет записи об этом запросе. Он с другого счёта, слишком старый или был отклонён.",
      ],
      "voucher not found": [
        "No voucher has this code, or it has expired, was revoked, or was redeemed by another account.",
        "Ваучера с таким кодом нет, либо он истёк, отозван или погашен другим счётом.",
      ],
      "all providers unavailable": [
        "No provider of the model answers now. Nothing was charged.",
        "Сейчас не отвечает ни один провайдер модели. Ничего не списано.",
      ],
      "service temporarily unavailable": [
        "The gateway has a fault, or it shuts down.",
        "Сбой шлюза, либо он завершает работу.",
      ],
      "upstream provider failure": [
        "The provider failed during its answer. Nothing was charged.",
        "Провайдер отказал во время ответа. Ничего не списано.",
      ],
    },
  },
} as const satisfies Tree;
